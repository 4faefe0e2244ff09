// SPDX-License-Identifier: Apache-2.0
#include "ctl/export_labels.hpp"

#include "libcore/base/text.hpp"

namespace flight::ctl {

Result<ExtraLabels> parse_labels(std::string_view text) {
  ExtraLabels out;
  for (std::string_view rest = text;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    if (word == "thread")
      out.thread = true;
    else if (word == "tid")
      out.tid = true;
    else if (word == "cpu")
      out.cpu = true;
    else
      return flight::fail(std::errc::invalid_argument,
                          "it must be thread, tid or cpu, or several of them as in tid,cpu, not '{}'", printable(text));
    if (word.size() == rest.size()) return out;
    rest.remove_prefix(word.size() + 1);
  }
}

}  // namespace flight::ctl
