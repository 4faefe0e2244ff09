// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/kernel_symbols.hpp"

#include <algorithm>
#include <span>

#include "libcore/snapshot/snapshot.hpp"
#include "libcore/store/names.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMostMaps = 8192;

bool is_same(const KernelMap& a, const KernelMap& b) {
  return a.address == b.address && a.name == b.name && a.build_id == b.build_id;
}

// A broker does not know the time before its start: for modules that it finds then, the begin is 0. A module of the
// previous broker that this one does not have was unloaded between their reads; a module that only this one has was
// loaded between them. The resulting lifetimes are never too short.
void follow(KernelNames& names, const KernelNames& before) {
  if (before.looked_ns == 0) return;
  const bool is_next = names.since_ns > before.looked_ns;
  for (KernelMap& map : names.maps) {
    if (map.is_kernel() || map.begin_ns != 0) continue;
    const auto old = std::find_if(before.maps.begin(), before.maps.end(),
                                  [&](const KernelMap& one) { return one.end_ns == 0 && is_same(one, map); });
    if (old != before.maps.end())
      map.begin_ns = old->begin_ns;
    else if (is_next)
      map.begin_ns = before.looked_ns;
  }
  const std::size_t own = names.maps.size();
  for (KernelMap old : before.maps) {
    const bool gone = is_next && old.end_ns == 0;
    const bool from_before = old.end_ns != 0 && old.end_ns <= names.since_ns;
    if (old.is_kernel() || (!gone && !from_before) || names.maps.size() >= kMostMaps) continue;
    const bool known =
        std::any_of(names.maps.begin(), names.maps.begin() + static_cast<std::ptrdiff_t>(own),
                    [&](const KernelMap& map) { return is_same(old, map) && map.begin_ns == old.begin_ns; });
    if (known) continue;
    if (gone) old.end_ns = names.since_ns;
    names.maps.push_back(std::move(old));
  }
}

}  // namespace

Result<std::shared_ptr<const KernelSymbols>> KernelSymbols::of(KernelReply reply, const KernelSymbols& before) {
  auto out = std::make_shared<KernelSymbols>();
  out->names = std::move(reply.names);
  follow(out->names, before.names);
  if (out->names.kallsyms == Kallsyms::unchanged) {
    if (before.frame == nullptr || before.names.digest != out->names.digest)
      return fail(std::errc::bad_message,
                  "the broker reports that kallsyms is unchanged, but it belongs to other modules");
    out->frame = before.frame;
  } else if (out->names.kallsyms == Kallsyms::sent) {
    const std::span<const std::byte> text = reply.kallsyms.bytes();
    auto frame = pack_kallsyms({reinterpret_cast<const char*>(text.data()), text.size()});
    if (!frame) return wrap(frame.error(), "compress kallsyms");
    out->frame = std::make_shared<const std::vector<std::byte>>(std::move(*frame));
  }
  return out;
}

std::string KernelSymbols::file(const std::string& boot_id) const {
  return frame != nullptr ? kallsyms_file(boot_id, names.digest) : std::string();
}

}  // namespace flight::daemon
