/// @file
/// What the race check remembers of each byte: its last write and the reads since.
#pragma once

#include <stdint.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace cutlass_ext::host {

/// An access that a byte remembers, and through `previous` the ones before it that still matter.
/// Histories are shared: bytes that were accessed alike have the same one.
struct Event {
  enum class Kind : uint8_t { kRead, kWrite, kAtomic, kPendingCopy };

  uint32_t previous;
  uint32_t time;        ///< the thread's own clock
  uint32_t generation;  ///< barriers of the whole block before it
  uint16_t thread;
  Kind kind;
  bool one_block;  ///< the whole history is of one block
  uint64_t block;
};

/// The events of a launch; an index of 0 is the empty history.
class EventTable {
 public:
  EventTable() { clear(); }

  void clear() {
    events_.assign(1, Event{});
    index_.clear();
  }

  Event const &operator[](uint32_t index) const { return events_[index]; }

  /// `event` after the history `event.previous`.
  uint32_t intern(Event const &event) {
    Key const key{event.previous, event.time, event.thread, event.kind, event.block};
    auto const [position, added] = index_.try_emplace(key, uint32_t(events_.size()));
    if (added) {
      events_.push_back(event);
    }
    return position->second;
  }

 private:
  struct Key {
    uint32_t previous;
    uint32_t time;
    uint16_t thread;
    Event::Kind kind;
    uint64_t block;

    bool operator==(Key const &other) const {
      return previous == other.previous && time == other.time && thread == other.thread &&
             kind == other.kind && block == other.block;
    }
  };

  struct Hash {
    size_t operator()(Key const &key) const {
      uint64_t hash = key.previous * 0x9e3779b97f4a7c15ull;
      hash = (hash ^ (hash >> 29) ^ key.time) * 0xbf58476d1ce4e5b9ull;
      hash = (hash ^ (hash >> 32) ^ key.thread ^ uint64_t(key.kind) << 16) * 0x94d049bb133111ebull;
      return size_t((hash ^ (hash >> 31)) + key.block * 0x9e3779b97f4a7c15ull);
    }
  };

  std::vector<Event> events_;
  std::unordered_map<Key, uint32_t, Hash> index_;
};

/// The memory of one byte.
struct Cell {
  uint32_t writes = 0;  ///< history of the last write, or of atomic accesses
  uint32_t reads = 0;   ///< history of the reads since

  bool operator==(Cell const &other) const {
    return writes == other.writes && reads == other.reads;
  }
};

/// Cells of global memory, made where they are first touched.
class GlobalShadow {
 public:
  static constexpr uintptr_t kPageBytes = 4096;

  void clear() {
    pages_.clear();
    last_page_ = nullptr;
  }

  /// The cell of the byte at `address`; those up to the next multiple of kPageBytes follow it.
  Cell *cells(uintptr_t address) {
    uintptr_t const number = address / kPageBytes;
    if (last_page_ == nullptr || number != last_number_) {
      std::unique_ptr<Cell[]> &page = pages_[number];
      if (page == nullptr) {
        page = std::make_unique<Cell[]>(kPageBytes);
      }
      last_number_ = number;
      last_page_ = page.get();
    }
    return last_page_ + address % kPageBytes;
  }

 private:
  std::unordered_map<uintptr_t, std::unique_ptr<Cell[]>> pages_;
  uintptr_t last_number_ = 0;
  Cell *last_page_ = nullptr;
};

}  // namespace cutlass_ext::host
