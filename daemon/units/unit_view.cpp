// SPDX-License-Identifier: Apache-2.0
#include "daemon/units/unit_view.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "daemon/units/unit_paths.hpp"

namespace flight::daemon {
namespace {

constexpr std::array<const char*, 2> kUnits{"flightd.service", "flightd-broker.service"};  // both read these files

// With the file that it leads to, if that is another one.
std::string named(const std::string& file) {
  std::error_code error;
  const std::string real = std::filesystem::weakly_canonical(file, error).string();
  return error || real == file ? file : fmt::format("{} ({})", file, real);
}

}  // namespace

std::string unit_user(const std::string& root) {
  const std::string user = UnitPaths::read(kUnits[0], root).user();
  return user.empty() ? "root" : user;
}

std::string hidden_by_unit(const std::string& path, const std::string& root) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return "";
  const auto real = std::filesystem::weakly_canonical(absolute, error);
  for (const char* unit : kUnits) {
    const UnitPaths paths = UnitPaths::read(unit, root);
    std::string setting = paths.hides(absolute.string());
    if (setting.empty() && !error) setting = paths.hides(real.string());
    if (!setting.empty()) return fmt::format("{} has {}", unit, setting);
  }
  return "";
}

Result<void> check_unit_view(const std::string& config_file, const Config& config, const std::string& state_dir,
                             const std::string& root) {
  std::vector<std::string> files;
  if (!config_file.empty()) files.push_back(config_file);
  for (const ConfigValue& value : config.values)
    if (value.file.starts_with('/') && std::find(files.begin(), files.end(), value.file) == files.end())
      files.push_back(value.file);
  files.push_back(state_dir);
  for (const std::string& file : files)
    if (const std::string setting = hidden_by_unit(file, root); !setting.empty())
      return fail(std::errc::permission_denied,
                  "the service cannot see {}: {}; move it to /etc/flightd (a configuration) or below "
                  "/var/lib/flightd (snapshots)",
                  named(file), setting);
  return {};
}

Result<void> check_unit_writes(const std::string& state_dir, const std::string& runtime_dir, const std::string& root) {
  struct Needed {
    std::string_view unit, option;
    const std::string& folder;
  };
  const std::array<Needed, 3> all{{{"flightd", "--state-dir", state_dir},
                                   {"flightd", "--runtime-dir", runtime_dir},
                                   // It makes the files of the snapshots.
                                   {"flightd-broker", "--state-dir", state_dir}}};
  for (const Needed& one : all)
    if (const std::string setting = UnitPaths::read(fmt::format("{}.service", one.unit), root).forbids(one.folder);
        !setting.empty())
      return fail(std::errc::permission_denied,
                  "{}.service may not write to {} ({}): its unit has {}; to permit it, write [Service] and "
                  "ReadWritePaths=-{} to the drop-in that `systemctl edit {}` opens "
                  "(/etc/systemd/system/{}.service.d/override.conf), or use the default directory",
                  one.unit, named(one.folder), one.option, setting, std::filesystem::absolute(one.folder).string(),
                  one.unit, one.unit);
  return {};
}

}  // namespace flight::daemon
