#include "cutlass_ext/host/runtime/scheduler.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <numeric>

#include "cutlass_ext/host/runtime/happens_before.h"
#include "cutlass_ext/host/runtime/sanitizer.h"
#include "cutlass_ext/host/runtime/text.h"

// The built-in variables; builtins.h declares them const for the kernels. A section of their own,
// whose ends the linker names, tells them from memory.
#define CUTLASS_EXT_BUILTIN __attribute__((section("cutlass_ext_builtins")))
CUTLASS_EXT_BUILTIN uint3 threadIdx;
CUTLASS_EXT_BUILTIN uint3 blockIdx;
CUTLASS_EXT_BUILTIN dim3 blockDim;
CUTLASS_EXT_BUILTIN dim3 gridDim;
extern "C" char const __start_cutlass_ext_builtins[];
extern "C" char const __stop_cutlass_ext_builtins[];

namespace cutlass_ext::host {

namespace {

// Only touched pages cost memory.
constexpr size_t kStackBytes = 512 << 10;

// Fruitless reads of a flag, by one thread, after which a launch counts as stuck.
constexpr uint64_t kSpinLimit = 5000;

uint3 coordinates(uint64_t linear, dim3 extent) {
  return uint3{unsigned(linear % extent.x), unsigned(linear / extent.x % extent.y),
               unsigned(linear / extent.x / extent.y)};
}

}  // namespace

namespace {

Scheduler scheduler_instance;
Statistics statistics_instance;

}  // namespace

Scheduler &the_scheduler = scheduler_instance;
Statistics &the_statistics = statistics_instance;

Thread::~Thread() {
  if (stack != nullptr) {
    size_t const page = size_t(sysconf(_SC_PAGESIZE));
    munmap(stack - page, stack_bytes + page);
  }
}

void Thread::allocate_stack(size_t bytes) {
  size_t const page = size_t(sysconf(_SC_PAGESIZE));
  void *memory = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  mprotect(memory, page, PROT_NONE);
  stack = static_cast<char *>(memory) + page;
  stack_bytes = bytes;
}

// ---- a launch ----

void Scheduler::run(LaunchConfiguration const &configuration, size_t shared_limit,
                    ThreadFunction thread, void const *arguments, size_t argument_bytes) {
  configuration_ = configuration;
  function_ = thread;
  arguments_ = arguments;
  argument_bytes_ = argument_bytes;
  shared_limit_ = shared_limit;
  blockDim = configuration.block;
  gridDim = configuration.grid;
  threads_per_block_ = int(configuration.block.x * configuration.block.y * configuration.block.z);
  padded_ = (threads_per_block_ + 31) / 32 * 32;
  random_.seed(options().seed);
  error_ = nullptr;
  abandoned_ = false;
  ++statistics().launches;

  uint64_t const count =
      uint64_t(configuration.grid.x) * configuration.grid.y * configuration.grid.z;
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t(0));
  if (options().shuffle_blocks) {
    std::shuffle(order.begin(), order.end(), random_);
  }
  uint64_t const resident = uint64_t(std::max(options().resident_blocks, 1));
  HappensBefore::begin_launch(threads_per_block_);
  try {
    for (uint64_t first = 0; first < count && !error_; first += resident) {
      start_blocks({order.begin() + ptrdiff_t(first),
                    order.begin() + ptrdiff_t(std::min(first + resident, count))});
      run_blocks();
    }
  } catch (...) {
    error_ = std::current_exception();
  }
  // Nothing of the launch stays: shared memory is freed, collectives and copies are forgotten.
  HappensBefore::end_launch();
  blocks_.clear();
  collectives_.clear();
  current_ = nullptr;
  ++launch_index_;
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void Scheduler::start_blocks(std::vector<uint64_t> const &indices) {
  int const warps = padded_ / 32 * int(indices.size());
  blocks_.resize(indices.size());
  ready_.assign(size_t(warps), 0);
  spinning_.assign(size_t(warps), 0);
  alive_.assign(size_t(warps), 0);
  collectives_.resize(size_t(warps));
  for (PendingCollectives &pending : collectives_) {
    pending.clear();
  }
  priority_.resize(size_t(warps));
  std::iota(priority_.begin(), priority_.end(), 0);
  if (options().order == Order::kWarpPriority) {
    std::shuffle(priority_.begin(), priority_.end(), random_);
  }
  while (threads_.size() < size_t(padded_) * indices.size()) {
    auto thread = std::make_unique<Thread>();
    thread->allocate_stack(kStackBytes);
    threads_.push_back(std::move(thread));
  }
  alive_threads_ = 0;
  for (size_t slot = 0; slot < indices.size(); ++slot) {
    Block &block = blocks_[slot];
    block.linear_index = indices[slot];
    block.index = coordinates(indices[slot], configuration_.grid);
    block.alive = threads_per_block_;
    block.shared.reset(configuration_.dynamic_shared_bytes, shared_limit_, options().poison);
    for (Barrier &barrier : block.barriers) {
      barrier.reset(warps_per_block());
    }
    HappensBefore::begin_block(int(slot), block.linear_index);
    for (int index = 0; index < threads_per_block_; ++index) {
      start_thread(int(slot), index);
    }
  }
  statistics().blocks += indices.size();
}

void Scheduler::start_thread(int slot, int index) {
  int const position = slot * padded_ + index;
  Thread &thread = *threads_[size_t(position)];
  thread.slot = slot;
  thread.index = index;
  thread.warp = position / 32;
  thread.lane = position % 32;
  thread.thread_index = coordinates(uint64_t(index), configuration_.block);
  thread.done = false;
  thread.wait = Wait{};
  thread.copies.clear();
  thread.spins = 0;
  // Stacks lie a multiple of the page size apart, so equal depths would share a cache set.
  size_t const stagger = size_t(position) * 1088 % 8192 / 64 * 64;
  sanitizer::unpoison_stack(thread.stack, thread.stack_bytes);
  thread.context.prepare(thread.stack, thread.stack_bytes - stagger, &Scheduler::thread_entry);
  ready_[size_t(thread.warp)] |= 1u << thread.lane;
  alive_[size_t(thread.warp)] |= 1u << thread.lane;
  ++alive_threads_;
}

void Scheduler::run_blocks() {
  main_stack_ = nullptr;  // learnt by the first thread: launches come from any host thread
  if (Thread *first = next()) {
    current_ = first;
    threadIdx = first->thread_index;
    blockIdx = blocks_[size_t(first->slot)].index;
    sanitizer::start_switch(&main_fake_stack_, first->stack, first->stack_bytes);
    Context::swap(main_context_, first->context);
    sanitizer::finish_switch(main_fake_stack_, nullptr, nullptr);
  }
  current_ = nullptr;
}

// ---- threads ----

void Scheduler::thread_entry() {
  scheduler().thread_body();
}

void Scheduler::thread_body() {
  sanitizer::finish_switch(nullptr, main_stack_ ? nullptr : &main_stack_,
                           main_stack_ ? nullptr : &main_stack_bytes_);
  try {
    if (!abandoned_) {
      function_(arguments_);
      if (!abandoned_) {
        current_->copies.wait_all();
      }
    }
  } catch (Abandoned const &) {
  } catch (...) {
    if (!error_) {
      error_ = std::current_exception();
    }
    abandon({});
  }
  finish_thread();
}

void Scheduler::finish_thread() {
  Thread &thread = *current_;
  thread.done = true;
  alive_[size_t(thread.warp)] &= ~(1u << thread.lane);
  ready_[size_t(thread.warp)] &= ~(1u << thread.lane);
  --blocks_[size_t(thread.slot)].alive;
  --alive_threads_;
  progress();
  if (!abandoned_) {
    try {
      collectives_after_exit(thread);
      barriers_after_exit(blocks_[size_t(thread.slot)]);
    } catch (...) {
      error_ = std::current_exception();
      abandon({});
    }
  }
  switch_to(next());
  __builtin_unreachable();
}

void Scheduler::wait(char const *what, Location where) {
  current_->wait = Wait{what, where};
  Thread *following = next();
  if (following != current_) {
    switch_to(following);
  }
  throw_if_abandoned();
}

void Scheduler::throw_if_abandoned() {
  if (abandoned_) {
    throw Abandoned{};
  }
}

void Scheduler::maybe_yield(char const *what, Location where) {
  if (options().order == Order::kRandom) {
    wake(current_->warp, 1u << current_->lane);
    wait(what, where);
  }
}

void Scheduler::spin(Location where) {
  Thread &thread = *current_;
  if (thread.spin_epoch != progress_epoch_) {
    thread.spin_epoch = progress_epoch_;
    thread.spins = 0;
  }
  if (++thread.spins > kSpinLimit) {
    fail(
        "livelock: the thread reads a flag again and again and nothing happens; the block that "
        "would set it may not be resident" +
        text(where));
  }
  // Whoever spins runs again only when no other thread can: it may be waiting for them.
  spinning_[size_t(thread.warp)] |= 1u << thread.lane;
  wait("a flag", where);
}

int Scheduler::choose_warp() {
  int const warps = int(ready_.size());
  switch (options().order) {
    case Order::kReverse:
      for (int warp = warps - 1; warp >= 0; --warp) {
        if (ready_[size_t(warp)]) {
          return warp;
        }
      }
      return -1;
    case Order::kWarpPriority:
      for (int warp : priority_) {
        if (ready_[size_t(warp)]) {
          return warp;
        }
      }
      return -1;
    case Order::kRandom: {
      int candidates = 0;
      for (unsigned lanes : ready_) {
        candidates += lanes != 0;
      }
      if (candidates == 0) {
        return -1;
      }
      int chosen = int(random_() % unsigned(candidates));
      for (int warp = 0;; ++warp) {
        if (ready_[size_t(warp)] && chosen-- == 0) {
          return warp;
        }
      }
    }
    default:
      for (int warp = 0; warp < warps; ++warp) {
        if (ready_[size_t(warp)]) {
          return warp;
        }
      }
      return -1;
  }
}

// The thread to run next, taken out of the ready ones; null when all threads have returned.
Thread *Scheduler::next() {
  if (alive_threads_ == 0) {
    return nullptr;
  }
  int warp = choose_warp();
  if (warp < 0) {
    ready_.swap(spinning_);
    warp = choose_warp();
  }
  if (warp < 0) {
    abandon(deadlock_report());
    warp = choose_warp();
  }
  unsigned const lanes = ready_[size_t(warp)];
  int lane = 0;
  switch (options().order) {
    case Order::kReverse:
      lane = 31 - __builtin_clz(lanes);
      break;
    case Order::kRandom: {
      unsigned rest = lanes;
      for (int skip = int(random_() % unsigned(__builtin_popcount(lanes))); skip > 0; --skip) {
        rest &= rest - 1;
      }
      lane = __builtin_ctz(rest);
      break;
    }
    default:
      lane = __builtin_ctz(lanes);
  }
  ready_[size_t(warp)] &= ~(1u << lane);
  return threads_[size_t(warp) * 32 + size_t(lane)].get();
}

void Scheduler::switch_to(Thread *next) {
  Thread *self = current_;
  ++statistics().switches;
  void **fake_stack = self->done ? nullptr : &self->fake_stack;
  if (next == nullptr) {
    sanitizer::start_switch(fake_stack, main_stack_, main_stack_bytes_);
    Context::swap(self->context, main_context_);
  } else {
    current_ = next;
    threadIdx = next->thread_index;
    blockIdx = blocks_[size_t(next->slot)].index;
    sanitizer::start_switch(fake_stack, next->stack, next->stack_bytes);
    Context::swap(self->context, next->context);
  }
  sanitizer::finish_switch(self->fake_stack, nullptr, nullptr);
}

bool Scheduler::is_private(void const *address) const {
  auto within = [address](void const *begin, size_t bytes) {
    return uintptr_t(address) - uintptr_t(begin) < bytes;
  };
  return within(current_->stack, current_->stack_bytes) || within(arguments_, argument_bytes_) ||
         within(__start_cutlass_ext_builtins,
                size_t(__stop_cutlass_ext_builtins - __start_cutlass_ext_builtins));
}

// ---- faults ----

std::string Scheduler::name_of(Thread const &thread) const {
  uint3 const b = blocks_[size_t(thread.slot)].index;
  uint3 const t = thread.thread_index;
  return text("block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
}

void Scheduler::fail(std::string const &message) {
  throw Error(message + (current_ ? " [" + name_of(*current_) + "]" : std::string()));
}

void Scheduler::report(std::string const &message) {
  abandon(message + " [" + name_of(*current_) + "]");
}

// Every thread that still waits is woken, so that it can unwind its stack.
void Scheduler::abandon(std::string const &message) {
  if (!error_) {
    error_ = std::make_exception_ptr(Error(message));
  }
  abandoned_ = true;
  ready_ = alive_;
  spinning_.assign(spinning_.size(), 0);
}

std::string Scheduler::deadlock_report() {
  std::string message = "deadlock: no thread can go on";
  for (size_t slot = 0; slot < blocks_.size(); ++slot) {
    uint3 const b = blocks_[slot].index;
    message += text("\n  block (%u,%u,%u):", b.x, b.y, b.z);
    // Runs of threads that wait for the same thing at the same place.
    for (int first = 0; first < threads_per_block_;) {
      Thread const &thread = this->thread(int(slot), first);
      auto same = [&](Thread const &other) {
        return other.done == thread.done &&
               (thread.done || (other.wait.what == thread.wait.what &&
                                other.wait.where.file == thread.wait.where.file &&
                                other.wait.where.line == thread.wait.where.line));
      };
      int last = first;
      while (last + 1 < threads_per_block_ && same(this->thread(int(slot), last + 1))) {
        ++last;
      }
      message += first == last ? text("\n    thread %d ", first)
                               : text("\n    threads %d-%d ", first, last);
      message += thread.done ? std::string("returned")
                             : text("wait at %s", thread.wait.what) + text(thread.wait.where);
      first = last + 1;
    }
  }
  return message;
}

}  // namespace cutlass_ext::host
