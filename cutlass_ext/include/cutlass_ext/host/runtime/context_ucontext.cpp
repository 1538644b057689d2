#include <ucontext.h>

#include "cutlass_ext/host/runtime/context.h"

namespace cutlass_ext::host {

namespace {

ucontext_t *state_of(void *&state) {
  if (state == nullptr) {
    state = new ucontext_t;
  }
  return static_cast<ucontext_t *>(state);
}

}  // namespace

Context::~Context() {
  delete static_cast<ucontext_t *>(state_);
}

void Context::prepare(char *stack, size_t bytes, void (*entry)()) {
  ucontext_t *state = state_of(state_);
  getcontext(state);
  state->uc_stack.ss_sp = stack;
  state->uc_stack.ss_size = bytes;
  state->uc_link = nullptr;
  makecontext(state, entry, 0);
}

void Context::swap(Context &from, Context &to) {
  swapcontext(state_of(from.state_), state_of(to.state_));
}

}  // namespace cutlass_ext::host
