/// @file
/// Vector clocks over the threads of all blocks of a launch.
#pragma once

#include <stdint.h>

#include <map>
#include <memory>
#include <vector>

namespace cutlass_ext::host {

/// How much of each thread's execution has happened before a point. Dense for the block that the
/// point belongs to; blocks are seldom ordered with one another, so of others only what was
/// acquired is kept.
class VectorClock {
 public:
  using Times = std::vector<uint32_t>;

  VectorClock() = default;
  VectorClock(uint64_t block, int threads) : block_(block), own_(size_t(threads), 0) {}

  uint64_t block() const { return block_; }
  uint32_t &own(int thread) { return own_[size_t(thread)]; }

  uint32_t at(uint64_t block, int thread) const {
    if (block == block_) {
      return own_[size_t(thread)];
    }
    auto const found = others_.find(block);
    return found == others_.end() ? 0 : (*found->second)[size_t(thread)];
  }

  void join(VectorClock const &other) {
    if (other.own_.empty()) {
      return;
    }
    if (other.block_ == block_) {
      maximum(own_, other.own_);
    } else {
      join_other(other.block_, std::make_shared<Times>(other.own_));
    }
    for (auto const &[block, times] : other.others_) {
      if (block == block_) {
        maximum(own_, *times);
      } else {
        join_other(block, times);
      }
    }
  }

 private:
  static void maximum(Times &a, Times const &b) {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = a[i] > b[i] ? a[i] : b[i];
    }
  }

  void join_other(uint64_t block, std::shared_ptr<Times const> const &times) {
    std::shared_ptr<Times const> &mine = others_[block];
    if (mine == nullptr) {
      mine = times;
    } else if (mine != times) {
      auto both = std::make_shared<Times>(*mine);
      maximum(*both, *times);
      mine = both;
    }
  }

  uint64_t block_ = 0;
  Times own_;
  std::map<uint64_t, std::shared_ptr<Times const>> others_;
};

}  // namespace cutlass_ext::host
