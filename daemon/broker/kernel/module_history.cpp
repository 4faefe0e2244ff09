// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/kernel/module_history.hpp"

#include <algorithm>
#include <utility>

namespace flight::broker {
namespace {

// Does not compare the size: it shrinks when a module has started and when another one is loaded after it.
bool same_life(const LoadedModule& a, const LoadedModule& b) {
  return a.name == b.name && a.address == b.address && a.inode == b.inode && a.build_id == b.build_id;
}

}  // namespace

void ModuleHistory::note(const std::vector<LoadedModule>& modules, EventTime begun_ns, EventTime done_ns,
                         const NameOf& name_of) {
  const bool first = looked_ns_ == 0;
  std::vector<Life> before = std::exchange(loaded_, {});
  std::vector<bool> still(before.size(), false);
  for (const LoadedModule& module : modules) {
    const auto known =
        std::find_if(before.begin(), before.end(), [&](const Life& life) { return same_life(life.module, module); });
    if (known != before.end() && !still[static_cast<std::size_t>(known - before.begin())]) {
      still[static_cast<std::size_t>(known - before.begin())] = true;
      known->map.bytes = module.bytes;
      loaded_.push_back(*known);
      continue;
    }
    loaded_.push_back({.module = module,
                       .map = {.name = name_of(module.name),
                               .address = module.address,
                               .bytes = module.bytes,
                               .build_id = module.build_id,
                               .begin_ns = first ? 0 : begun_ns_}});
  }
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!still[i]) end(std::move(before[i]), done_ns);
  if (first) since_ns_ = begun_ns;
  begun_ns_ = begun_ns;
  looked_ns_ = done_ns;
}

void ModuleHistory::end(Life life, EventTime end_ns) {
  life.map.end_ns = end_ns;
  gone_.push_front(std::move(life.map));
  if (gone_.size() <= kMaxGone) return;
  since_ns_ = std::max(since_ns_, gone_.back().end_ns);
  gone_.pop_back();
  ++forgotten_;
}

KernelNames ModuleHistory::names() const {
  KernelNames out{.maps = {}, .since_ns = since_ns_, .looked_ns = looked_ns_, .forgotten = forgotten_};
  out.maps.reserve(loaded_.size() + gone_.size() + 1);
  for (const Life& life : loaded_) out.maps.push_back(life.map);
  out.maps.insert(out.maps.end(), gone_.begin(), gone_.end());
  return out;
}

}  // namespace flight::broker
