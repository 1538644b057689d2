/// @file
/// Instructions that the lanes of a warp execute together.
#pragma once

#include <stdint.h>

#include <vector>

#include "cutlass_ext/host/error.h"

namespace cutlass_ext::host {

struct Thread;

struct Collective;

/// What a collective is and does.
struct CollectiveKind {
  char const *name;
  /// Runs once, when all lanes have arrived; null where meeting is all there is.
  void (*execute)(Collective &collective);
  /// Every lane of the warp must take part (`.aligned`).
  bool full_warp;
};

/// A meeting of lanes that has begun.
struct Collective {
  CollectiveKind const *kind;
  void const *detail;   ///< what else must agree between the lanes: the PTX instruction
  unsigned mask;        ///< lanes that were named
  unsigned arrived;     ///< lanes that have come
  void *arguments[32];  ///< each lane's, null where it has not come
};

/// The collectives of one warp that have begun; their masks are disjoint.
using PendingCollectives = std::vector<Collective>;

/// Meets the other lanes of `mask`. When this returns, `kind.execute` has run with every lane's
/// `argument`. Throws Error where the lanes execute different instructions.
void meet(unsigned mask, CollectiveKind const &kind, void const *detail, void *argument,
          Location where);

/// Completes what the return of a lane completes: it is not waited for any more.
void collectives_after_exit(Thread &thread);

}  // namespace cutlass_ext::host
