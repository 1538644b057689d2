#include <boost/context/detail/fcontext.hpp>

#include "cutlass_ext/host/runtime/context.h"

namespace cutlass_ext::host {

namespace {

namespace boost_context = boost::context::detail;

// Boost hands the context that was left to the one that continues. Launches are serialised, so one
// variable carries its owner across.
Context *left = nullptr;
void (*entry_of_prepared)() = nullptr;

}  // namespace

Context::~Context() = default;

void Context::prepare(char *stack, size_t bytes, void (*entry)()) {
  entry_of_prepared = entry;
  state_ = boost_context::make_fcontext(stack + bytes, bytes, [](boost_context::transfer_t from) {
    left->state_ = from.fctx;
    entry_of_prepared();
  });
}

void Context::swap(Context &from, Context &to) {
  left = &from;
  boost_context::transfer_t const back = boost_context::jump_fcontext(to.state_, nullptr);
  left->state_ = back.fctx;
}

}  // namespace cutlass_ext::host
