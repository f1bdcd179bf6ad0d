#include "nn/gradient_slots.h"

#include <algorithm>

namespace ampctl::nn {

GradientSlots::GradientSlots(Layer& model) { collect(model); }

GradientSlots::~GradientSlots() {
  for (const auto& [parameter, slot] : slots_) slot->reset();
}

void GradientSlots::collect(torch::nn::Module& module) {
  if (auto* holder = dynamic_cast<HasGradientSlots*>(&module)) {
    for (auto& slot : holder->gradient_slots()) slots_.push_back(std::move(slot));
  }
  for (const auto& child : module.children()) collect(*child);
}

void GradientSlots::set(const std::vector<std::pair<at::Tensor, at::Tensor>>& places) {
  for (const auto& [parameter, slot] : slots_) {
    const auto found = std::find_if(places.begin(), places.end(), [&known = parameter](const auto& place) {
      return place.first.is_same(known);
    });
    *slot = found == places.end() ? kernels::GradientSlotPtr()
                                  : c10::make_intrusive<kernels::GradientSlot>(parameter, found->second);
  }
}

}  // namespace ampctl::nn
