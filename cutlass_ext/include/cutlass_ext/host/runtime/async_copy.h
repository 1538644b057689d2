/// @file
/// cp.async: copies that one thread has issued and not yet waited for.
#pragma once

#include <stdint.h>

#include <vector>

namespace cutlass_ext::host {

/// The copies of one thread, in groups. A copy takes its source when it is issued and writes its
/// destination when it is waited for, the last moment that PTX allows; in between the destination
/// is poisoned. A program that waits too late, or not for enough groups, so reads poison always.
class AsyncCopies {
 public:
  void issue(char *destination, char const *source, int bytes, int source_bytes);
  void commit();
  /// Completes all groups but the `pending` newest.
  void wait_group(int pending);
  /// Completes everything, committed or not.
  void wait_all();
  /// Forgets everything, as when a launch is abandoned.
  void clear();

 private:
  static constexpr int kMaxBytes = 16;

  struct Copy {
    char *destination;
    char const *source;
    uint8_t bytes;
    uint8_t source_bytes;  ///< the rest is filled with zeros
    uint32_t group;
    char snapshot[kMaxBytes];
  };

  void complete_before(uint32_t group);
  void complete(Copy const &copy);

  std::vector<Copy> copies_;  ///< in the order of issue
  uint32_t group_ = 0;        ///< the group that is being gathered
};

}  // namespace cutlass_ext::host
