// SPDX-License-Identifier: Apache-2.0
// What is wrong with the value of an option or an argument, as typed; empty: nothing. These need no daemon.
#pragma once

#include <string>

namespace flight::ctl {

// As the daemon does.
[[nodiscard]] std::string check_id(const std::string& id);
[[nodiscard]] std::string check_recording_id(const std::string& id);
[[nodiscard]] std::string check_host(const std::string& host);
[[nodiscard]] std::string check_socket(const std::string& path);
[[nodiscard]] std::string check_not_empty(const std::string& text);
[[nodiscard]] std::string check_time(const std::string& text);
[[nodiscard]] std::string check_span(const std::string& text);
[[nodiscard]] std::string check_size(const std::string& text);
[[nodiscard]] std::string check_count(const std::string& text);
[[nodiscard]] std::string check_number(const std::string& text);
[[nodiscard]] std::string check_capture(const std::string& word);
[[nodiscard]] std::string check_format(const std::string& word);
[[nodiscard]] std::string check_labels(const std::string& text);
[[nodiscard]] std::string check_trigger(const std::string& name);

}  // namespace flight::ctl
