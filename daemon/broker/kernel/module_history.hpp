// SPDX-License-Identifier: Apache-2.0
// When each module was loaded, from successive reads of the list. Bounded: of unloaded modules the newest are kept.
//
//   looks      0         1         2         3          a module that look 2 is the first to see was not there before
//   life            ├────┼─────────┼────┤               look 1 began, and was gone when look 3 was done
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/broker/kernel_names.hpp"
#include "libcore/sysinfo/modules.hpp"

namespace flight::broker {

class ModuleHistory {
 public:
  static constexpr std::size_t kMaxGone = 1024;
  // Maps a module's name to the name of its map; called once for each life.
  using NameOf = std::function<std::string(const std::string& module)>;

  // `modules` was read between `begun_ns` and `done_ns`.
  void note(const std::vector<LoadedModule>& modules, EventTime begun_ns, EventTime done_ns, const NameOf& name_of);

  // The modules' part: maps (loaded modules by address, then unloaded ones, latest first), since_ns, looked_ns,
  // forgotten.
  [[nodiscard]] KernelNames names() const;

 private:
  struct Life {
    LoadedModule module;
    KernelMap map;
  };
  void end(Life life, EventTime end_ns);
  std::vector<Life> loaded_;
  std::deque<KernelMap> gone_;  // latest first
  EventTime since_ns_ = 0, begun_ns_ = 0, looked_ns_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace flight::broker
