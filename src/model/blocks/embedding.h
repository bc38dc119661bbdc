// Embedding and Head: from token ids to the residual stream and from its sampled rows to logits. A tied head is the
// embedding matrix. Every rank holds both whole.
#pragma once

#include <string>

#include "model/model.h"

namespace octavo {

class Embedding {
 public:
  Embedding(int vocab, int hidden) : vocab_(vocab), hidden_(hidden) {}

  Status visit(Binder& binder, const std::string& name) {
    const PartRequest part{name, vocab_};
    return binder.weight(table_, {&part, 1}, hidden_);
  }
  // out [tokens, hidden]
  void lookup(Step& step, const Tensor& out, float scale = 1.0f) const {
    step.ops.embed({step.ids, table_, scale, out});
  }

  const Weight& table() const { return table_; }

 private:
  int vocab_;
  int hidden_;
  Weight table_;
};

class Head {
 public:
  Head(int vocab, int hidden) : vocab_(vocab), hidden_(hidden) {}

  // A head that is present although tied equals the embedding (models.md 1), and is bound so that no tensor stays
  // unread.
  Status visit(Binder& binder, const Embedding& embedding, bool tied) {
    if (tied && !binder.has("lm_head.weight")) {
      weight_ = embedding.table();
      return {};
    }
    const PartRequest part{"lm_head", vocab_};
    return binder.weight(weight_, {&part, 1}, hidden_);
  }

  // x [tokens, hidden], after the last norm -> f32 [sampled, vocab]
  Tensor logits(Step& step, const Tensor& x) const {
    const std::int64_t sampled = step.sampled_rows.size(0);
    const Tensor logits = step.arena.take(DType::f32, {sampled, vocab_});
    const Arena::Scope scope(step.arena);
    const Tensor rows = step.take(sampled, hidden_);
    step.ops.gather({x, step.sampled_rows, rows});
    step.ops.linear({rows, weight_, Tensor(), logits});
    return logits;
  }

 private:
  int vocab_;
  int hidden_;
  Weight weight_;
};

}  // namespace octavo
