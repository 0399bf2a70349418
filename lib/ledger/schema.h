// The tables of ledger.db.
//
// Uniqueness carries exactly-once: a group that is accepted twice or that appears in two plans
// violates a key and is an error instead of a double training. Names of states and reasons are
// text, so that the sqlite3 program shows them as they are. Unsigned 64-bit numbers are stored as
// signed ones with the same bits.
//
// Each page has a checksum (checked_files.h), so no row needs one. It is in bytes that SQLite
// leaves free: other programs may read the file, but not write it, because their pages have none.
#pragma once

namespace buttress {

inline constexpr int kLedgerApplicationId = 0x42545253;  // "BTRS"
inline constexpr int kLedgerVersion = 17;

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
  greso_hard         REAL,
  ordered_max_age    INTEGER           -- in place of run.batch.max_age, by an operator
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

-- Counts the transactions, so that a loss of the newest ones is seen (ledger_lock.h).
CREATE TABLE transactions (
  only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
  ledger_id  TEXT    NOT NULL,  -- random
  number     INTEGER NOT NULL
) STRICT;

INSERT INTO transactions VALUES (1, lower(hex(randomblob(16))), 0);

-- The starts of the coordinator. Two copies of a ledger that were both started differ here.
CREATE TABLE starts (
  coordinator_epoch  INTEGER PRIMARY KEY,
  start_id           TEXT    NOT NULL  -- random
) STRICT;

-- One row for each drawn prompt that is in no archive, with its present place in the life of a
-- group.
CREATE TABLE groups (
  group_id       INTEGER PRIMARY KEY,
  prompt_id      TEXT    NOT NULL,
  source         TEXT    NOT NULL,
  pass           INTEGER NOT NULL,
  dataset_row    INTEGER NOT NULL,
  completions    INTEGER NOT NULL,
  probability    REAL    NOT NULL,  -- with which the prompt was drawn when its turn came
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
  under_way      INTEGER NOT NULL  -- neither settled nor dropped
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

-- The archives of groups that have ended (archive.h), which are the groups 1 ... last_group of the
-- newest one: no row of `groups`, `accepted` and `plan_groups` names any of them.
CREATE TABLE archives (
  number       INTEGER PRIMARY KEY,
  first_group  INTEGER NOT NULL,
  last_group   INTEGER NOT NULL UNIQUE,
  first_step   INTEGER NOT NULL,
  last_step    INTEGER NOT NULL,
  bytes        INTEGER NOT NULL,
  sha256       BLOB    NOT NULL,
  end_segment  INTEGER NOT NULL,  -- behind the last payload of this archive and those before it
  end_offset   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER refuse_archived BEFORE INSERT ON groups
WHEN NEW.group_id <= (SELECT MAX(last_group) FROM archives) BEGIN
  SELECT RAISE(ABORT, 'the group is in an archive');
END;

-- The results of the newest archived groups of each source, from which a restart learns how
-- difficult a source is where the newer groups are too few.
CREATE TABLE archived_trials (
  source          TEXT    NOT NULL,
  group_id        INTEGER NOT NULL,
  before_correct  REAL    NOT NULL,
  before_scored   REAL    NOT NULL,
  own_correct     REAL    NOT NULL,
  own_scored      REAL    NOT NULL,
  PRIMARY KEY (source, group_id)
) STRICT, WITHOUT ROWID;

-- An accepted group. `head` is a serialized v1::GroupHead: outcomes, rewards, lengths, versions,
-- class, and what the coordinator knew of the prompt before. The tokens are in payloads/ at
-- (segment, offset).
CREATE TABLE accepted (
  group_id        INTEGER PRIMARY KEY REFERENCES groups,
  lease_epoch     INTEGER NOT NULL,
  content_sha256  BLOB    NOT NULL,
  segment         INTEGER NOT NULL,
  offset          INTEGER NOT NULL,
  bytes           INTEGER NOT NULL,
  payload_check   INTEGER NOT NULL,
  head            BLOB    NOT NULL
) STRICT;

CREATE INDEX accepted_by_place ON accepted (segment, offset);

-- The results of all accepted groups of a prompt.
CREATE TABLE prompt_history (
  dataset_row     INTEGER PRIMARY KEY,
  correct         INTEGER NOT NULL,
  scored          INTEGER NOT NULL,
  recent_correct  REAL    NOT NULL,
  recent_scored   REAL    NOT NULL
) STRICT;

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

-- The plans. `summary` is a serialized v1::PlanSummary: the collapse counts of all groups drawn for
-- the step, by source as well, and sums over their completions.
CREATE TABLE plans (
  step       INTEGER PRIMARY KEY,
  summary    BLOB    NOT NULL
) STRICT;

CREATE TABLE plan_groups (
  step      INTEGER NOT NULL REFERENCES plans,
  position  INTEGER NOT NULL,
  group_id  INTEGER NOT NULL UNIQUE REFERENCES accepted,
  PRIMARY KEY (step, position)
) STRICT, WITHOUT ROWID;

-- Groups that were given up because they are damaged, with the place in a plan that they held
-- (step 0: none).
CREATE TABLE drops (
  group_id     INTEGER PRIMARY KEY,
  step         INTEGER NOT NULL,
  position     INTEGER NOT NULL,
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

-- Every announced version.
CREATE TABLE manifests (
  learner_epoch  INTEGER NOT NULL,
  step           INTEGER NOT NULL,
  digest         BLOB    NOT NULL,
  PRIMARY KEY (learner_epoch, step)
) STRICT, WITHOUT ROWID;

-- The manifest of the newest version, a serialized v1::WeightManifest.
CREATE TABLE newest_manifest (
  only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
  bytes      BLOB    NOT NULL
) STRICT;

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

-- Tokens of the accepted groups that have ended: in the loss, outside of it, and not trained.
CREATE TABLE ended_tokens (
  only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
  trained    INTEGER NOT NULL,
  masked     INTEGER NOT NULL,
  stale      INTEGER NOT NULL
) STRICT;

-- What worker processes have said of the tokens that they sampled, when a group of theirs was
-- accepted, and the tokens of all their accepted groups.
CREATE TABLE worker_tokens (
  worker_id    TEXT    NOT NULL,
  incarnation  INTEGER NOT NULL,
  generated    INTEGER NOT NULL,
  cut          INTEGER NOT NULL,
  refused      INTEGER NOT NULL,
  accepted     INTEGER NOT NULL,
  PRIMARY KEY (worker_id, incarnation)
) STRICT, WITHOUT ROWID;

-- Why a learner ended the run with its checkpoint of `step`, before the last step. The run
-- continues once a later learner has registered.
CREATE TABLE early_ends (
  learner_epoch      INTEGER PRIMARY KEY,
  step               INTEGER NOT NULL,
  coordinator_epoch  INTEGER NOT NULL,
  reason             TEXT    NOT NULL  -- the learner's words
) STRICT;
)sql";

}  // namespace buttress
