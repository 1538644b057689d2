/// @file
/// Runs the threads of the resident blocks, one at a time, until each waits or returns.
#pragma once

#include <stdint.h>

#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cutlass_ext/host/launch.h"
#include "cutlass_ext/host/options.h"
#include "cutlass_ext/host/runtime/thread.h"
#include "cutlass_ext/host/runtime/warp.h"

namespace cutlass_ext::host {

class Scheduler {
 public:
  /// Runs a whole launch. The caller has checked the configuration and holds the launch lock.
  void run(LaunchConfiguration const &configuration, size_t shared_limit, ThreadFunction thread,
           void const *arguments, size_t argument_bytes);

  /// Whether a CUDA thread is running.
  bool running() const { return current_ != nullptr; }
  Thread &current() { return *current_; }
  Block &block() { return blocks_[current_->slot]; }
  Block &block(int slot) { return blocks_[slot]; }
  Thread &thread(int slot, int index) { return *threads_[slot * padded_ + index]; }
  int threads_per_block() const { return threads_per_block_; }
  int warps_per_block() const { return padded_ / 32; }
  int resident_blocks() const { return int(blocks_.size()); }
  uint64_t launch_index() const { return launch_index_; }
  /// Whether `address` is that of a local or a built-in variable, or of an argument of the kernel:
  /// what a device keeps in registers or constant memory.
  bool is_private(void const *address) const;

  /// Lanes of a warp that have not returned.
  unsigned alive(int warp) const { return alive_[warp]; }
  PendingCollectives &collectives(int warp) { return collectives_[warp]; }

  /// Suspends the calling thread until `wake`. Throws where the launch is being abandoned.
  void wait(char const *what, Location where);
  void wake(int warp, unsigned lanes) { ready_[warp] |= lanes; }
  /// Unwinds the calling thread where the launch is being abandoned.
  void throw_if_abandoned();
  /// Lets other threads run first where the order is random.
  void maybe_yield(char const *what, Location where);

  /// A read of a flag that another block may set: gives the others a turn, and ends a launch in
  /// which nothing happens any more.
  void spin(Location where);
  /// Something that a spinning thread may wait for has happened.
  void progress() { ++progress_epoch_; }

  /// Ends the launch with an error that names the calling thread.
  [[noreturn]] void fail(std::string const &message);
  /// The same where nothing may be thrown: the launch ends when the calling thread next waits.
  void report(std::string const &message);

 private:
  struct Abandoned {};

  void start_blocks(std::vector<uint64_t> const &indices);
  void start_thread(int slot, int index);
  void run_blocks();
  static void thread_entry();
  void thread_body();
  void finish_thread();
  Thread *next();
  int choose_warp();
  void switch_to(Thread *next);
  void abandon(std::string const &message);
  std::string deadlock_report();
  std::string name_of(Thread const &thread) const;

  // The launch.
  LaunchConfiguration configuration_{};
  ThreadFunction function_ = nullptr;
  void const *arguments_ = nullptr;
  size_t argument_bytes_ = 0;
  size_t shared_limit_ = 0;
  uint64_t launch_index_ = 0;
  int threads_per_block_ = 0;
  int padded_ = 0;  ///< threads a block, rounded up to whole warps

  // The blocks in flight.
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<unsigned> ready_;     ///< lanes that can run, for each warp
  std::vector<unsigned> spinning_;  ///< lanes that have read a flag in vain
  std::vector<unsigned> alive_;     ///< lanes that have not returned, for each warp
  std::vector<PendingCollectives> collectives_;
  std::vector<int> priority_;  ///< warps, first to run first
  int alive_threads_ = 0;

  Thread *current_ = nullptr;
  Context main_context_;
  void *main_fake_stack_ = nullptr;
  void const *main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;

  std::mt19937_64 random_;
  std::exception_ptr error_;
  bool abandoned_ = false;
  uint64_t progress_epoch_ = 0;
};

// One of each for the process: launches are serialised.
extern Scheduler &the_scheduler;
extern Options &the_options;
extern Statistics &the_statistics;

inline Scheduler &scheduler() {
  return the_scheduler;
}
inline Options &options() {
  return the_options;
}
inline Statistics &statistics() {
  return the_statistics;
}

}  // namespace cutlass_ext::host
