// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/kernel/kernel_answers.hpp"

#include <algorithm>
#include <utility>

#include "libcore/broker/kernel_names.hpp"

namespace flight::broker {

KernelAnswers::KernelAnswers(KernelWatch watch) : watch_(std::move(watch)) {}

std::optional<KernelAnswers::Reply> KernelAnswers::next() {
  if (!answer_) follow_watch();
  if (!answer_ || asked_ == 0) {
    answer_.reset();  // it can hold 10 MB
    return std::nullopt;
  }
  --asked_;
  Result<KernelWatch::Answer>& answer = *answer_;
  if (!answer) return Reply{.document = propagate(answer.error())};
  KernelNames& names = answer->names;
  Reply out{.document = document_.of(encode(names))};
  if (out.document) client_kallsyms_ = names.kallsyms == Kallsyms::none ? std::string() : names.digest;
  if (names.kallsyms == Kallsyms::sent) {
    out.kallsyms = answer->kallsyms.get();
    names.kallsyms = Kallsyms::unchanged;  // for the next request
  }
  return out;
}

void KernelAnswers::follow_watch() {
  if (asked_ > 0 && !is_wanted_ && Clock::now() - wanted_ >= Document::kNewEvery) {
    is_wanted_ = true;
    wanted_ = Clock::now();
    watch_.want(client_kallsyms_);
  }
  watch_.look();
  answer_ = watch_.take();
  if (answer_) is_wanted_ = false;
}

void KernelAnswers::forget() {
  watch_.forget();
  client_kallsyms_.clear();
  asked_ = 0;
  is_wanted_ = false;
  answer_.reset();
}

std::chrono::milliseconds KernelAnswers::look_every() const {
  const auto every = watch_.look_every();
  return asked_ > 0 ? std::min(every, Document::kNewEvery) : every;
}

}  // namespace flight::broker
