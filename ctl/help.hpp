// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl --help`: it fits on a terminal of 24 lines of 80 columns. Those of the commands are CLI11's.
// All are wrapped for the width of the terminal, at most 80 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace flight::ctl {

class HelpPage : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace flight::ctl
