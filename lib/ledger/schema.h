// The tables of ledger.db.
//
// Uniqueness carries exactly-once: a group that is accepted twice or that appears in two plans
// violates a key and is an error instead of a double training. Names of states, reasons and classes
// are text, so that the sqlite3 program shows them as they are; outcomes and finish reasons are the
// numbers of proto/buttress/v1/experience.proto. Unsigned 64-bit numbers are stored as signed ones
// with the same bits.
#pragma once

namespace buttress {

inline constexpr int kLedgerApplicationId = 0x42545253;  // "BTRS"
inline constexpr int kLedgerVersion = 12;

inline constexpr const char* kLedgerSchema = R"sql(
CREATE TABLE run (
  only_row           INTEGER PRIMARY KEY CHECK (only_row = 1),
  run_id             TEXT    NOT NULL,  -- random, made with the ledger
  run_name           TEXT    NOT NULL,
  config_sha256      TEXT    NOT NULL,
  coordinator_epoch  INTEGER NOT NULL,
  next_group_id      INTEGER NOT NULL,
  learner_epoch      INTEGER NOT NULL,
  planned_step       INTEGER NOT NULL,
  committed_step     INTEGER NOT NULL,
  checkpoint_step    INTEGER NOT NULL,
  settled_step       INTEGER NOT NULL,
  acr_ema            REAL,
  finished           INTEGER NOT NULL,
  greso_easy         REAL,
  greso_hard         REAL
) STRICT;

-- The sources of prompts, and how far the run has drawn from each. The columns dataset_row of the
-- other tables count through all of them, in the order of `position`.
CREATE TABLE sources (
  position        INTEGER PRIMARY KEY,
  name            TEXT    NOT NULL UNIQUE,  -- empty for run.data.prompts
  dataset_rows    INTEGER NOT NULL,
  dataset_sha256  TEXT    NOT NULL,  -- of the whole file
  cursor_pass     INTEGER NOT NULL,
  cursor_index    INTEGER NOT NULL,
  drawn           INTEGER NOT NULL
) STRICT;

-- The starts of the coordinator. Two copies of a ledger that were both started differ here.
CREATE TABLE starts (
  coordinator_epoch  INTEGER PRIMARY KEY,
  start_id           TEXT    NOT NULL  -- random
) STRICT;

-- One row for each drawn prompt, with its present place in the life of a group.
CREATE TABLE groups (
  group_id       INTEGER PRIMARY KEY,
  prompt_id      TEXT    NOT NULL,
  source         TEXT    NOT NULL,
  pass           INTEGER NOT NULL,
  dataset_row    INTEGER NOT NULL,
  completions    INTEGER NOT NULL,
  state          TEXT    NOT NULL,
  reason         TEXT    NOT NULL,
  attempts       INTEGER NOT NULL,
  lease_epoch    INTEGER NOT NULL,
  worker_id      TEXT    NOT NULL,
  incarnation    INTEGER NOT NULL,
  min_epoch      INTEGER NOT NULL,
  min_step       INTEGER NOT NULL,
  granted_epoch  INTEGER NOT NULL,
  granted_step   INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  position       INTEGER NOT NULL,
  passed         INTEGER NOT NULL,
  holds_slot     INTEGER NOT NULL,
  under_way      INTEGER NOT NULL   -- neither settled nor dropped
) STRICT;

-- A restart reads the groups that are under way, those that were replaced since the last plan, and
-- the newest ones of each source, whatever lies behind them.
CREATE INDEX groups_under_way ON groups (group_id) WHERE under_way;
CREATE INDEX groups_replaced ON groups (step) WHERE reason = 'no_signal';
CREATE INDEX groups_by_source ON groups (source);

-- Counts of the groups that have ended. A trigger keeps them in the transaction that ends a group.
CREATE TABLE ended_groups (
  state   TEXT    NOT NULL,
  reason  TEXT    NOT NULL,
  groups  INTEGER NOT NULL,
  PRIMARY KEY (state, reason)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER count_ended AFTER UPDATE OF under_way ON groups
WHEN OLD.under_way AND NOT NEW.under_way BEGIN
  INSERT INTO ended_groups VALUES (NEW.state, NEW.reason, 1)
  ON CONFLICT DO UPDATE SET groups = groups + 1;
END;

CREATE TRIGGER count_inserted_ended AFTER INSERT ON groups WHEN NOT NEW.under_way BEGIN
  INSERT INTO ended_groups VALUES (NEW.state, NEW.reason, 1)
  ON CONFLICT DO UPDATE SET groups = groups + 1;
END;

-- An accepted group; its completions have rows of their own, and its tokens are in payloads/ at
-- (segment, offset). The columns history_ are the prompt's results before this group, recent_ the
-- same with less weight for older groups, and own_ what this group adds to them. The columns
-- record_ are the prompt's row of prompt_records before this group, 0 without a selection.
CREATE TABLE accepted (
  group_id         INTEGER PRIMARY KEY REFERENCES groups,
  lease_epoch      INTEGER NOT NULL,
  content_sha256   BLOB    NOT NULL,
  prompt_tokens    INTEGER NOT NULL,
  component_names  TEXT    NOT NULL,  -- separated by line feeds
  components       BLOB    NOT NULL,  -- [completions, components] little-endian doubles
  versions         TEXT    NOT NULL,  -- 'epoch:step,...', all that sampled the group
  collapse         TEXT    NOT NULL,
  history_correct  INTEGER NOT NULL,
  history_scored   INTEGER NOT NULL,
  recent_correct   REAL    NOT NULL,
  recent_scored    REAL    NOT NULL,
  own_correct      INTEGER NOT NULL,
  own_scored       INTEGER NOT NULL,
  segment          INTEGER NOT NULL,
  offset           INTEGER NOT NULL,
  bytes            INTEGER NOT NULL,
  payload_check    INTEGER NOT NULL,
  record_easy      INTEGER NOT NULL,
  record_hard      INTEGER NOT NULL,
  record_constant  INTEGER NOT NULL,
  record_pass      INTEGER NOT NULL,
  record_correct   REAL    NOT NULL,
  record_wrong     REAL    NOT NULL
) STRICT;

CREATE INDEX accepted_by_place ON accepted (segment, offset);

-- The results of all accepted groups of a prompt: the sums of their columns own_, and of the last
-- one with a scored completion the columns recent_ and own_. A trigger keeps them in the
-- transaction that accepts a group.
CREATE TABLE prompt_history (
  dataset_row     INTEGER PRIMARY KEY,
  correct         INTEGER NOT NULL,
  scored          INTEGER NOT NULL,
  recent_correct  REAL    NOT NULL,
  recent_scored   REAL    NOT NULL,
  last_correct    INTEGER NOT NULL,
  last_scored     INTEGER NOT NULL
) STRICT;

CREATE TRIGGER count_results AFTER INSERT ON accepted BEGIN
  INSERT INTO prompt_history
  SELECT dataset_row, NEW.own_correct, NEW.own_scored, NEW.recent_correct, NEW.recent_scored,
    NEW.own_correct, NEW.own_scored
  FROM groups WHERE group_id = NEW.group_id
  ON CONFLICT DO UPDATE SET
    correct = correct + excluded.correct, scored = scored + excluded.scored,
    recent_correct = iif(excluded.scored > 0, excluded.recent_correct, recent_correct),
    recent_scored = iif(excluded.scored > 0, excluded.recent_scored, recent_scored),
    last_correct = iif(excluded.scored > 0, excluded.last_correct, last_correct),
    last_scored = iif(excluded.scored > 0, excluded.last_scored, last_scored);
END;

-- Takes back what count_results has added, when a group is to be sampled again. Of several groups
-- of a prompt the newest is deleted first.
CREATE TRIGGER take_results_back AFTER DELETE ON accepted BEGIN
  UPDATE prompt_history SET
    correct = correct - OLD.own_correct, scored = scored - OLD.own_scored,
    recent_correct = iif(scored = OLD.history_scored + OLD.own_scored, OLD.recent_correct,
                         recent_correct),
    recent_scored = iif(scored = OLD.history_scored + OLD.own_scored, OLD.recent_scored,
                        recent_scored),
    last_correct = iif(scored = OLD.history_scored + OLD.own_scored, 0, last_correct),
    last_scored = iif(scored = OLD.history_scored + OLD.own_scored, 0, last_scored)
  WHERE dataset_row = (SELECT dataset_row FROM groups WHERE group_id = OLD.group_id);
END;

-- One completion of an accepted group. Copies have equal digests and near copies have similar
-- sketches, also after the payload is deleted.
CREATE TABLE completions (
  group_id        INTEGER NOT NULL REFERENCES accepted,
  position        INTEGER NOT NULL,
  outcome         INTEGER NOT NULL,
  finish_reason   INTEGER NOT NULL,
  raw_reward      REAL    NOT NULL,
  reward          REAL    NOT NULL,
  trained_tokens  INTEGER NOT NULL,
  total_tokens    INTEGER NOT NULL,
  version_epoch   INTEGER NOT NULL,
  version_step    INTEGER NOT NULL,
  logprob_sum     REAL    NOT NULL,  -- nats, of all tokens
  token_digest    BLOB    NOT NULL,  -- first 16 bytes of the SHA-256 of the token ids
  token_sketch    BLOB    NOT NULL,  -- MinHash of the token ids, 32 little-endian 16-bit bins
  PRIMARY KEY (group_id, position)
) STRICT, WITHOUT ROWID;

-- What the selection of prompts knows of each prompt, if run.data.selection has a mode.
CREATE TABLE prompt_records (
  dataset_row    INTEGER PRIMARY KEY,
  easy_in_a_row  INTEGER NOT NULL,
  hard_in_a_row  INTEGER NOT NULL,
  last_constant  INTEGER NOT NULL,
  last_pass      INTEGER NOT NULL,
  correct        REAL    NOT NULL,
  wrong          REAL    NOT NULL
) STRICT;

-- Prompts that were passed over, and why. In one pass a row of the dataset is either here or in
-- `groups`, never in both.
CREATE TABLE skipped (
  pass         INTEGER NOT NULL,
  dataset_row  INTEGER NOT NULL,
  reason       TEXT    NOT NULL,
  source       TEXT    NOT NULL,
  PRIMARY KEY (pass, dataset_row)
) STRICT, WITHOUT ROWID;

-- Counts of `skipped`, kept by a trigger.
CREATE TABLE skipped_prompts (
  source   TEXT    NOT NULL,
  reason   TEXT    NOT NULL,
  prompts  INTEGER NOT NULL,
  PRIMARY KEY (source, reason)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER count_skipped AFTER INSERT ON skipped BEGIN
  INSERT INTO skipped_prompts VALUES (NEW.source, NEW.reason, 1)
  ON CONFLICT DO UPDATE SET prompts = prompts + 1;
END;

-- Reported counts of all accepted groups.
CREATE TABLE collapse (
  source          TEXT PRIMARY KEY,
  groups          INTEGER NOT NULL,
  all_correct     INTEGER NOT NULL,
  all_wrong       INTEGER NOT NULL,
  other_constant  INTEGER NOT NULL,
  mixed           INTEGER NOT NULL,
  unscorable      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The collapse snapshot of a step: counts of the groups drawn for it (those of its plan and those
-- that they replaced), and, in the columns total_, of all groups accepted by then. The columns
-- drawn_ are sums over the completions of the groups drawn for it.
CREATE TABLE plans (
  step                  INTEGER PRIMARY KEY,
  groups                INTEGER NOT NULL,
  all_correct           INTEGER NOT NULL,
  all_wrong             INTEGER NOT NULL,
  other_constant        INTEGER NOT NULL,
  mixed                 INTEGER NOT NULL,
  unscorable            INTEGER NOT NULL,
  total_groups          INTEGER NOT NULL,
  total_all_correct     INTEGER NOT NULL,
  total_all_wrong       INTEGER NOT NULL,
  total_other_constant  INTEGER NOT NULL,
  total_mixed           INTEGER NOT NULL,
  total_unscorable      INTEGER NOT NULL,
  acr_ema               REAL    NOT NULL,
  expected_acr          REAL    NOT NULL,
  drawn_completions     INTEGER NOT NULL,
  drawn_scorable        INTEGER NOT NULL,
  drawn_tokens          INTEGER NOT NULL,
  drawn_raw_reward      REAL    NOT NULL
) STRICT;

-- The groups drawn for a step by data source, and, in the columns recent_, those drawn for the 16
-- steps before.
CREATE TABLE plan_sources (
  step                   INTEGER NOT NULL REFERENCES plans,
  source                 TEXT    NOT NULL,
  groups                 INTEGER NOT NULL,
  all_correct            INTEGER NOT NULL,
  all_wrong              INTEGER NOT NULL,
  other_constant         INTEGER NOT NULL,
  mixed                  INTEGER NOT NULL,
  unscorable             INTEGER NOT NULL,
  recent_groups          INTEGER NOT NULL,
  recent_all_correct     INTEGER NOT NULL,
  recent_all_wrong       INTEGER NOT NULL,
  recent_other_constant  INTEGER NOT NULL,
  recent_mixed           INTEGER NOT NULL,
  recent_unscorable      INTEGER NOT NULL,
  PRIMARY KEY (step, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE plan_groups (
  step      INTEGER NOT NULL REFERENCES plans,
  position  INTEGER NOT NULL,
  group_id  INTEGER NOT NULL UNIQUE REFERENCES accepted,
  PRIMARY KEY (step, position)
) STRICT, WITHOUT ROWID;

-- Groups that were given up because they are damaged, with the place in a plan that they held
-- (step 0: none) and the group that took it (0: none yet).
CREATE TABLE drops (
  group_id     INTEGER PRIMARY KEY REFERENCES groups,
  step         INTEGER NOT NULL,
  position     INTEGER NOT NULL,
  replaced_by  INTEGER NOT NULL,
  reason       TEXT    NOT NULL
) STRICT;

CREATE TABLE learners (
  learner_epoch      INTEGER PRIMARY KEY,
  start_step         INTEGER NOT NULL,
  checkpoint_digest  BLOB    NOT NULL,
  world_size         INTEGER NOT NULL,
  secret_sha256      BLOB    NOT NULL  -- of the secret that the job names in its calls
) STRICT;

CREATE TABLE commits (
  learner_epoch  INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  PRIMARY KEY (learner_epoch, step)
) STRICT, WITHOUT ROWID;

-- Every announced version; only the newest keeps the bytes of its manifest.
CREATE TABLE manifests (
  learner_epoch  INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  digest         BLOB    NOT NULL,
  bytes          BLOB,
  PRIMARY KEY (learner_epoch, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  learner_epoch  INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  digest         BLOB    NOT NULL,
  PRIMARY KEY (learner_epoch, step)
) STRICT, WITHOUT ROWID;

-- The checkpoint of another run that this run began from, and where it began to draw from each
-- source; empty for a run that began with its start model (`buttress launch --from`).
CREATE TABLE origin (
  source        TEXT    PRIMARY KEY,
  run_id        TEXT    NOT NULL,  -- of the other run
  step          INTEGER NOT NULL,  -- of the checkpoint
  digest        BLOB    NOT NULL,  -- of the checkpoint
  cursor_pass   INTEGER NOT NULL,
  cursor_index  INTEGER NOT NULL,
  drawn         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What an operator wants of a worker, until it is taken back.
CREATE TABLE worker_orders (
  worker_id    TEXT PRIMARY KEY,
  worker_order TEXT NOT NULL,
  reason       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

// A ledger of this version may lack the table until a coordinator opens it.
inline constexpr const char* kEarlyEndsTable = R"sql(
-- Why a learner ended the run with its checkpoint of `step`, before the last step. The run goes on
-- once a later learner has registered.
CREATE TABLE IF NOT EXISTS early_ends (
  learner_epoch      INTEGER PRIMARY KEY,
  step               INTEGER NOT NULL,
  coordinator_epoch  INTEGER NOT NULL,
  reason             TEXT    NOT NULL  -- the learner's words
) STRICT;
)sql";

}  // namespace buttress
