// Embedding and Head: from token ids to the residual stream and from its sampled rows to logits. A tied head is the
// embedding matrix. Ranks share the rows of the vocabulary: lookups are summed, logits put side by side.
#pragma once

#include <optional>
#include <string>

#include "model/model.h"

namespace octavo {

// Which rows of a vocabulary's matrix a rank holds: an even share, or all where the ranks do not divide them.
class VocabShare {
 public:
  VocabShare(int vocab, RankOf rank) : vocab_(vocab), rank_(rank), is_cut_(rank.size > 1 && vocab % rank.size == 0) {}

  bool is_cut() const { return is_cut_; }
  std::int64_t vocab() const { return vocab_; }
  // Of a share, the token of its first row.
  std::optional<std::int64_t> first_id() const {
    if (!is_cut_) return std::nullopt;
    return std::int64_t{vocab_} / rank_.size * rank_.rank;
  }
  Status bind(Binder& binder, const std::string& name, int hidden, bool looked_up, Weight& target) const {
    PartRequest part{name, vocab_, is_cut_ ? Cut::rows : Cut::none};
    part.looked_up = looked_up;
    return binder.weight(target, {&part, 1}, hidden);
  }

 private:
  int vocab_;
  RankOf rank_;
  bool is_cut_;
};

class Embedding {
 public:
  Embedding(int vocab, int hidden, RankOf rank) : share_(vocab, rank), hidden_(hidden) {}

  Status visit(Binder& binder, const std::string& name) { return share_.bind(binder, name, hidden_, true, table_); }
  // out [tokens, hidden]
  void lookup(Step& step, const Tensor& out, float scale = 1.0f) const {
    step.ops.embed({step.ids, table_, scale, out, share_.first_id()});
    if (share_.is_cut()) step.comm.all_reduce(out);
  }

  const Weight& table() const { return table_; }

 private:
  VocabShare share_;
  int hidden_;
  Weight table_;
};

class Head {
 public:
  Head(int vocab, int hidden, RankOf rank) : share_(vocab, rank), hidden_(hidden) {}

  // A head that is present although tied equals the embedding (models.md 1), and is bound so that no tensor stays
  // unread.
  Status visit(Binder& binder, const Embedding& embedding, bool tied) {
    if (tied && !binder.has("lm_head.weight")) {
      weight_ = embedding.table();
      return binder.multiply_too(weight_);
    }
    return share_.bind(binder, "lm_head", hidden_, false, weight_);
  }

  // x [tokens, hidden], after the last norm -> f32 [sampled, vocab], on every rank
  Tensor logits(Step& step, const Tensor& x) const {
    const std::int64_t sampled = step.sampled_rows.size(0);
    const Tensor logits = step.arena.take(DType::f32, {sampled, share_.vocab()});
    const Arena::Scope scope(step.arena);
    const Tensor rows = step.take(sampled, hidden_);
    step.ops.gather({x, step.sampled_rows, rows});
    const Tensor own = share_.is_cut() ? step.arena.take(DType::f32, {sampled, weight_.out}) : logits;
    step.ops.linear({rows, weight_, Tensor(), own});
    if (share_.is_cut()) step.comm.all_gather_columns(own, logits);
    return logits;
  }

 private:
  VocabShare share_;
  int hidden_;
  Weight weight_;
};

}  // namespace octavo
