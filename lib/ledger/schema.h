// The tables of ledger.db. Uniqueness carries exactly-once: a group accepted twice, or in two
// plans, is an error and not a double training. Names of states, reasons and classes are text, so
// that the file can be read with the sqlite3 program; outcomes and finish reasons are the numbers
// of experience.proto. Unsigned 64-bit numbers are stored as their signed bits.
#pragma once

namespace buttress {

inline constexpr int kLedgerApplicationId = 0x42545253;  // "BTRS"
inline constexpr int kLedgerVersion = 3;

inline constexpr const char* kLedgerSchema = R"sql(
CREATE TABLE run (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  run_name TEXT NOT NULL, config_sha256 TEXT NOT NULL, coordinator_epoch INTEGER NOT NULL, next_group_id INTEGER NOT NULL,
  cursor_pass INTEGER NOT NULL, cursor_index INTEGER NOT NULL, learner_epoch INTEGER NOT NULL, planned_step INTEGER NOT NULL,
  committed_step INTEGER NOT NULL, settled_step INTEGER NOT NULL, acr_ema REAL, finished INTEGER NOT NULL,
  greso_easy REAL, greso_hard REAL) STRICT;

-- One prompt drawn and its present place in the life cycle.
CREATE TABLE groups (
  group_id INTEGER PRIMARY KEY, prompt_id TEXT NOT NULL, source TEXT NOT NULL, pass INTEGER NOT NULL, dataset_row INTEGER NOT NULL,
  completions INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, lease_epoch INTEGER NOT NULL,
  worker_id TEXT NOT NULL, incarnation INTEGER NOT NULL, min_epoch INTEGER NOT NULL, min_step INTEGER NOT NULL,
  granted_epoch INTEGER NOT NULL, granted_step INTEGER NOT NULL, step INTEGER NOT NULL, position INTEGER NOT NULL,
  passed INTEGER NOT NULL, holds_slot INTEGER NOT NULL, under_way INTEGER NOT NULL) STRICT;

-- What a restart reads: groups neither settled nor dropped.
CREATE INDEX groups_under_way ON groups (group_id) WHERE under_way;

-- Content of an accepted group, tokens apart (those are in payloads/ at segment and offset). `completions` is JSON, read it as the view of
-- that name; history_ is what came before this group, own_ what it adds.
CREATE TABLE accepted (
  group_id INTEGER PRIMARY KEY REFERENCES groups, lease_epoch INTEGER NOT NULL, content_sha256 BLOB NOT NULL,
  prompt_tokens INTEGER NOT NULL, component_names TEXT NOT NULL, components BLOB NOT NULL, versions TEXT NOT NULL,
  collapse TEXT NOT NULL, history_correct INTEGER NOT NULL, history_scored INTEGER NOT NULL, own_correct INTEGER NOT NULL,
  own_scored INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL, bytes INTEGER NOT NULL,
  payload_check INTEGER NOT NULL, completions TEXT NOT NULL) STRICT;

CREATE VIEW completions AS
  SELECT group_id, key AS position, value ->> 0 AS outcome, value ->> 1 AS finish_reason, value ->> 2 AS raw_reward, value ->> 3 AS reward,
    value ->> 4 AS trained_tokens, value ->> 5 AS total_tokens, value ->> 6 AS version_epoch, value ->> 7 AS version_step
  FROM accepted, json_each(accepted.completions);

-- What the selection of prompts remembers of each, where run.data.selection has a mode.
CREATE TABLE prompt_records (
  dataset_row INTEGER PRIMARY KEY, easy_in_a_row INTEGER NOT NULL, hard_in_a_row INTEGER NOT NULL, last_constant INTEGER NOT NULL,
  last_pass INTEGER NOT NULL, correct REAL NOT NULL, wrong REAL NOT NULL) STRICT;

-- Prompts passed over, and why. No row of the dataset is both here and in `groups` for the same pass.
CREATE TABLE skipped (
  pass INTEGER NOT NULL, dataset_row INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (pass, dataset_row)) STRICT, WITHOUT ROWID;

-- Reported counts of all accepted groups.
CREATE TABLE collapse (
  source TEXT PRIMARY KEY, groups INTEGER NOT NULL, all_correct INTEGER NOT NULL, all_wrong INTEGER NOT NULL,
  other_constant INTEGER NOT NULL, mixed INTEGER NOT NULL, unscorable INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- The collapse snapshot of a step: counts of the groups drawn for it (its own and those that they replaced), then of all groups accepted
-- by then.
CREATE TABLE plans (
  step INTEGER PRIMARY KEY,
  groups INTEGER NOT NULL, all_correct INTEGER NOT NULL, all_wrong INTEGER NOT NULL,
  other_constant INTEGER NOT NULL, mixed INTEGER NOT NULL, unscorable INTEGER NOT NULL,
  total_groups INTEGER NOT NULL, total_all_correct INTEGER NOT NULL, total_all_wrong INTEGER NOT NULL,
  total_other_constant INTEGER NOT NULL, total_mixed INTEGER NOT NULL, total_unscorable INTEGER NOT NULL,
  acr_ema REAL NOT NULL, expected_acr REAL NOT NULL) STRICT;

CREATE TABLE plan_groups (
  step INTEGER NOT NULL REFERENCES plans, position INTEGER NOT NULL, group_id INTEGER NOT NULL UNIQUE REFERENCES accepted,
  PRIMARY KEY (step, position)) STRICT, WITHOUT ROWID;

CREATE TABLE learners (
  learner_epoch INTEGER PRIMARY KEY, start_step INTEGER NOT NULL, checkpoint_digest BLOB NOT NULL, world_size INTEGER NOT NULL) STRICT;

CREATE TABLE commits (
  learner_epoch INTEGER NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (learner_epoch, step)) STRICT, WITHOUT ROWID;

-- Every announced version; only the newest keeps its manifest's bytes.
CREATE TABLE manifests (
  learner_epoch INTEGER NOT NULL, step INTEGER NOT NULL, digest BLOB NOT NULL, bytes BLOB,
  PRIMARY KEY (learner_epoch, step)) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  learner_epoch INTEGER NOT NULL, step INTEGER NOT NULL, digest BLOB NOT NULL,
  PRIMARY KEY (learner_epoch, step)) STRICT, WITHOUT ROWID;
)sql";

}  // namespace buttress
