// SPDX-License-Identifier: Apache-2.0
#include "ctl/profiled.hpp"

#include <cerrno>
#include <utility>

#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/remote_folder.hpp"
#include "libcore/base/files.hpp"

namespace flight::ctl {
namespace {

Answer<FileReader> open_data(const Common& common, const Sidecar& sidecar) {
  if (auto here = data_in_place(common, sidecar)) return std::move(*here);
  auto remote = open_remote(common, sidecar.id, SnapshotFile::data);
  if (!remote) return tl::unexpected(remote.error());
  auto fetched = read_remote_data(
      *remote, [] { return open_memfd("data"); }, "memory");
  if (!fetched) return tl::unexpected(Refusal{std::string(kOutputFailed), fetched.error().what});
  return std::move(*fetched);
}

}  // namespace

std::optional<FileReader> data_in_place(const Common& common, const Sidecar& sidecar) {
  if (!common.host.empty()) return std::nullopt;
  auto here = FileReader::open(sidecar.path);
  if (!here || here->file_bytes() != sidecar.size_bytes) return std::nullopt;
  return std::move(*here);
}

Answer<Profiled> open_profiled(const Common& common, const std::string& id, KernelSymbols symbols) {
  const auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  if (!text) return tl::unexpected(text.error());
  auto sidecar = parse_sidecar(*text);
  if (!sidecar) return tl::unexpected(Refusal{std::string(kBadReply), sidecar.error().what});
  auto data = open_data(common, *sidecar);
  if (!data) return tl::unexpected(data.error());
  // `latest` may be another snapshot in this call.
  const auto kallsyms = fetch_kallsyms(common, sidecar->id, sidecar->boot_id, symbols);
  Profiled out{.sidecar = std::move(*sidecar), .data = std::move(*data), .kallsyms = {}, .no_kallsyms = {}};
  if (kallsyms)
    out.kallsyms.assign(reinterpret_cast<const char*>(kallsyms->data()), kallsyms->size());
  else
    out.no_kallsyms = printable(kallsyms.error().message);
  return out;
}

Result<std::optional<SchedProfile>> read_scheduling(const Profiled& snapshot, const SchedLanesOrder& lanes) {
  const Sidecar& sidecar = snapshot.sidecar;
  SchedOrder order;
  order.shown = {.begin_ns = sidecar.common_window.begin_ns,
                 .end_ns = sidecar.window.end_ns,
                 .covered_ns = sidecar.common_window.begin_ns};
  order.sidecar = &sidecar;
  order.lanes = lanes;
  auto profile = SchedProfile::read(snapshot.data, order);
  if (profile) return std::optional<SchedProfile>(std::move(*profile));
  if (profile.error().errno_value() == ENODEV) return std::optional<SchedProfile>();
  return propagate(profile.error());
}

int complain_of_profile(const Common& common, const Error& error) {
  const bool no_event = error.errno_value() == EINVAL;
  return complain(common, no_event ? kUsageError : kOutputFailed, error.what, no_event ? kUsage : kRefused);
}

}  // namespace flight::ctl
