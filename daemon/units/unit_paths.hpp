// SPDX-License-Identifier: Apache-2.0
// Finds out from a unit's file and its drop-ins where the unit may write and what it cannot see (systemd.exec(5):
// ProtectSystem=, ReadWritePaths=, StateDirectory=, ProtectHome= and so on). A check by hand runs outside of the unit,
// sees everything and can write everywhere, so it would accept a directory that is read-only for the service. The files
// are read, and systemd is not asked: the check also runs before the first start, and where systemd does not run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flight::daemon {

class UnitPaths {
 public:
  // The settings in one file's text; a later file adds to them, or resets a list with an empty value.
  void add(std::string_view text);
  // The settings of the unit `name` below `root` (empty: /). If there is no such file, those of the shipped unit.
  [[nodiscard]] static UnitPaths read(const std::string& name, const std::string& root = "");
  // Those of the units that are shipped, flightd.service and flightd-broker.service.
  [[nodiscard]] static UnitPaths shipped(std::string_view name);

  // The setting that forbids the unit to write below `path`: "ProtectSystem=strict"; empty: it may. Links are followed,
  // as systemd does. Where a setting has a specifier (%…), nothing is known, and it may.
  [[nodiscard]] std::string forbids(const std::string& path) const;
  // Its User=; empty: none, or it has a specifier.
  [[nodiscard]] std::string user() const;
  // The setting that hides `path` from the unit: "ProtectHome=yes"; empty: it sees it. Links are not followed.
  [[nodiscard]] std::string hides(const std::string& path) const;

 private:
  struct Rule {
    std::string path, setting;
    bool permits = false;
    std::uint8_t strength = 0;  // of two for one path, the stronger one counts
  };
  enum class What : std::uint8_t { writes, view };
  [[nodiscard]] std::vector<Rule> protections(What what) const;
  // The setting that decides about `path`, if it does not permit it.
  [[nodiscard]] std::string decide(What what, const std::string& path) const;
  [[nodiscard]] std::string value_of(std::string_view name) const;  // of those with one value
  // By setting; of a list all its words.
  struct Setting {
    std::string name;
    std::vector<std::string> words;
  };
  [[nodiscard]] const std::vector<std::string>& words_of(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  std::vector<Setting> settings_;
};

}  // namespace flight::daemon
