// SPDX-License-Identifier: Apache-2.0
// flightctl doctor: checks what this machine provides for flightd. It works with and without a running flightd, as
// root and as another user; with --host it checks that machine.
#include <algorithm>

#include "ctl/connection.hpp"
#include "ctl/doctor/assess.hpp"
#include "ctl/doctor/gather.hpp"
#include "ctl/doctor/page.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"

namespace flight::ctl {
namespace {

constexpr std::string_view kListBegin = "[";

std::string page_of(const Findings& findings, bool all) {
  const Screen screen = Screen::here();
  const auto most = page_lines();
  std::string whole = doctor_page(findings, screen, most.has_value());
  return all || !most || count_lines(whole) <= *most ? whole : doctor_brief(findings, screen, *most);
}

Findings findings_here(const Common& common) {
  Facts facts;
  facts.kernel = gather_kernel();
  facts.kernel.oom_killers = running_oom_killers();
  facts.install = gather_install();
  facts.daemon = gather_daemon(common);
  facts.store = gather_store(common, facts.daemon);
  return assess(facts);
}

Result<Findings> findings_there(const Common& common) {
  auto output = output_there(common, "--json doctor");
  if (!output) return propagate(output.error());
  auto findings = parse_findings(*output);
  if (!findings)
    return wrap(findings.error(), "{}: the output of `flightctl --json doctor` there ({}{})", common.host,
                begins_list(*output) ? "" : noise_text(*output) + "; ", kNoisyShell);
  return findings;
}

}  // namespace

int run_doctor(const Common& common, bool all) {
  // The bracket comes before the checks, which can take long on a sick machine: another flightctl waits for a first
  // byte.
  const bool begun = common.json && common.host.empty();
  if (begun && print(stdout, kListBegin) != kDone) return kRefused;
  auto findings = common.host.empty() ? Result<Findings>(findings_here(common)) : findings_there(common);
  if (!findings) return complain(common, kNotConnected, findings.error().what, kRefused);
  const std::string text = common.json ? indented(to_json(*findings)) : page_of(*findings, all);
  const int printed = print(stdout, std::string_view(text).substr(begun ? kListBegin.size() : 0));
  const bool failed = std::any_of(findings->begin(), findings->end(),
                                  [](const Finding& finding) { return finding.state == FindingState::fail; });
  return printed != kDone ? printed : (failed ? kRefused : kDone);
}

}  // namespace flight::ctl
