// SPDX-License-Identifier: Apache-2.0
#include "ctl/exported_file.hpp"

#include "ctl/fetch.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/text.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {

Result<std::string> place_of_export(const Sidecar& sidecar, const OutputFile& output, std::string_view suffix) {
  if (!output.path.empty()) return output.path;
  const auto name = parse_snapshot_name(sidecar.path.substr(sidecar.path.rfind('/') + 1));
  if (!name)
    return flight::fail(std::errc::bad_message,
                        "flightd calls the snapshot '{}', which is not a snapshot name; use -o FILE",
                        printable(sidecar.path));
  return own_place(name->stem() + std::string(suffix), output);
}

Result<void> write_exported(const std::string& where,
                            const std::function<Result<void>(const WriteBytes& write)>& make) {
  return write_target(where, [&](int to) {
    return make([&](std::span<const std::byte> bytes) -> Result<void> {
      if (auto written = write_patiently(to, bytes); !written)
        return wrap(written.error(), "{}", where == "-" ? "stdout" : where);
      return {};
    });
  });
}

}  // namespace flight::ctl
