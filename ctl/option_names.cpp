// SPDX-License-Identifier: Apache-2.0
#include "ctl/option_names.hpp"

#include <string_view>
#include <utility>

#include "libcore/control/messages.hpp"

namespace flight::ctl {

std::string with_option_names(const CallError& error) {
  std::string message = error_message({error.parameters, error.name, false});
  for (const auto& [name, option] : {std::pair<std::string_view, std::string_view>("'last_usec'", "--last"),
                                     {"'post_usec'", "--post"},
                                     {"'since'", "--since"},
                                     {"'until'", "--until"},
                                     {"'capture'", "--capture"},
                                     {"'past_ns'", "--past"},
                                     {"'for_ns'", "--for"},
                                     {"'max_bytes'", "--max-size"},
                                     {"'part_bytes'", "--switch-size"},
                                     {"'channels'", "--channel"},
                                     {"'layout'", "--layout"},
                                     {"'reason'", "--reason"}})
    for (std::size_t at = message.find(name); at != std::string::npos; at = message.find(name))
      message.replace(at, name.size(), option);
  return message;
}

}  // namespace flight::ctl
