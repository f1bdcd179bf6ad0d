#include "bench/operand_traffic.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace ampctl::bench {
namespace {

// A slot of the state that PyTorch hands on from forward to backward threads; LibTorch itself leaves it
// alone.
constexpr auto kSlot = c10::DebugInfoKind::PRODUCER_INFO;

/// An operator under way.
struct Open : at::ObserverContext {
  bool moves = false;  // data: neither a view nor memory is all it makes
  int64_t own = 0;     // bytes of its operands
  int64_t inside = 0;  // bytes of the operators inside it
};

int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<int64_t>(tensor.itemsize()) : 0;
}

template <typename Values>
int64_t bytes_of_all(const Values& values) {
  int64_t bytes = 0;
  for (const auto& value : values) {
    if (value.isTensor()) {
      bytes += bytes_of(value.toTensor());
    } else if (value.isList()) {
      for (const auto& item : value.toListRef()) {
        if (item.isTensor()) bytes += bytes_of(item.toTensor());
      }
    }
  }
  return bytes;
}

bool makes_view(const at::RecordFunction& fn) {
  const auto schema = fn.operator_schema();
  if (!schema || schema->returns().empty()) return false;
  const auto* alias = schema->returns().front().alias_info();
  return alias != nullptr && !alias->isWrite();
}

bool moves_data(const at::RecordFunction& fn) {
  constexpr std::array<std::string_view, 5> kMemory{"aten::empty", "aten::new_empty", "aten::resize",
                                                    "aten::set_", "aten::record_stream"};
  // What has no namespace or is none of an operator's repeats one that is there as well.
  constexpr std::string_view kEngine = "autograd::";
  const std::string_view name = fn.name();
  if (name.find("::") == std::string_view::npos || name.starts_with(kEngine)) return false;
  const bool memory = std::any_of(kMemory.begin(), kMemory.end(),
                                  [&](std::string_view known) { return name.starts_with(known); });
  return !memory && !makes_view(fn);
}

class Tally : public c10::DebugInfoBase {
 public:
  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& fn) {
    auto open = std::make_unique<Open>();
    open->moves = moves_data(fn);
    if (open->moves) open->own = bytes_of_all(fn.inputs());
    const std::lock_guard lock(mutex_);
    stacks_[fn.threadId()].push_back(open.get());
    return open;
  }

  void end(const at::RecordFunction& fn, at::ObserverContext* context) {
    auto* open = static_cast<Open*>(context);
    if (open->moves) open->own += bytes_of_all(fn.outputs());
    const int64_t bytes = std::max(open->own, open->inside);
    const std::lock_guard lock(mutex_);
    auto& stack = stacks_[fn.threadId()];
    stack.erase(std::remove(stack.begin(), stack.end(), open), stack.end());
    (stack.empty() ? bytes_ : stack.back()->inside) += bytes;
  }

  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<Open*>> stacks_;  // by thread, the innermost last
  int64_t bytes_ = 0;
};

Tally* current() { return static_cast<Tally*>(c10::ThreadLocalDebugInfo::get(kSlot)); }

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& fn) {
  Tally* tally = current();
  return tally == nullptr ? nullptr : tally->begin(fn);
}

void on_end(const at::RecordFunction& fn, at::ObserverContext* context) {
  Tally* tally = current();
  if (tally != nullptr && context != nullptr) tally->end(fn, context);
}

class Callback {
 public:
  Callback()
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}
  ~Callback() { at::removeCallback(handle_); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

int64_t operand_traffic(const std::function<void()>& work) {
  const auto tally = std::make_shared<Tally>();
  const c10::DebugInfoGuard guard(kSlot, tally);
  const Callback callback;
  work();
  return tally->bytes();
}

}  // namespace ampctl::bench
