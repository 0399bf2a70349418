// Polls /data and shows it, or what a page without a server holds. Every text of the run is set as
// textContent: nothing that a policy writes becomes markup.
'use strict';

const POLL_MS = 2000, WIDTH = 320, HEIGHT = 150, LEFT = 38, BOTTOM = 16;
const SVG = 'http://www.w3.org/2000/svg';
const COLORS = ['blue', 'amber', 'green', 'red', 'violet', 'grey'];
const SPANS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
// Title, the measurements of the lines, and the top of the axis if it is fixed. The server sends
// names and help of all measurements (lib/measure/measurements.cc).
const CHARTS = [
  ['Raw reward, shaped reward and accuracy', ['raw_reward_mean', 'shaped_reward_mean', 'accuracy']],
  ['Advantage collapse rate', ['acr', 'acr_effective', 'acr_expected'], 1],
  ['Collapse by class', ['acr_all_correct', 'acr_all_wrong', 'acr_other'], 1],
  ['Entropy (nats per token)', ['entropy']],
  ['KL (nats)', ['kl', 'start_kl']],
  ['Length (tokens)', ['length_mean']],
  ['Truncated and distinct', ['truncated_share', 'distinct_share'], 1],
  ['Age of the tokens (versions)', ['token_age.mean']],
  ['Throughput (tokens per second)', ['tokens_per_second', 'speed.fresh']],
];
// Only of runs with run.control.
const CONTROL_CHARTS = [
  ['Closed loop: mixed groups', ['control.mixed', 'control.mixed_expected'], 1],
  ['Closed loop: draw factor', ['control.draw_factor']],
];
// Only of runs with episodes.
const EPISODE_CHARTS = [
  ['Turns and tool calls of an episode', ['episodes.turns_mean', 'episodes.tool_calls_mean']],
  ['Failed calls and repeated answers',
    ['episodes.failed_calls_share', 'episodes.repeated_answers_share'], 1],
  ['Ends of episodes', ['episodes.ends_done', 'episodes.ends_turns', 'episodes.ends_tokens',
    'episodes.ends_tools', 'episodes.ends_time', 'episodes.ends_failed'], 1],
];
const TILES = ['raw_reward_mean', 'accuracy', 'acr', 'acr_effective', 'entropy', 'kl', 'length_mean',
  'token_age.mean', 'tokens_per_second'];
const EVALS = ['accuracy', 'raw_reward_mean', 'truncated_share'];
const WORKER_PHASES = [['generates', 'generating_seconds', 'blue'],
  ['scores', 'scoring_seconds', 'violet'], ['waits for leases', 'no_lease_seconds', 'amber'],
  ['waits for weights', 'wait_weights_seconds', 'red'], ['submits', 'submitting_seconds', 'green']];
const COORDINATOR_PHASES = [['writes the ledger', 'ledger', 'green'],
  ['other work', 'loop', 'blue']];
const CLASSES = [['mixed', 'blue'], ['all_correct', 'green'], ['all_wrong', 'red'],
  ['other_constant', 'violet'], ['unscorable', 'grey']];

let generation = 0, points = [], evals = [], names = {}, help = [], received = 0, failure = '';
const shown = {};  // what each part of the page was drawn from

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node[key] = value;
  node.append(...children.filter(child => child !== null));
  return node;
}

function svg(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function color(node, name, property) {
  node.style.setProperty(property || 'background', `var(--${name})`);
  return node;
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return '–';
  if (value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 1e6))
    return value.toExponential(1);
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : digits);
}

// As number, in the width that the axis of a chart has.
const tick = value => value >= 1e4 && value < 1e6 ? `${number(value / 1e3)}k` : number(value);

function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  let rest = Math.max(0, Math.round(seconds)), parts = [];
  for (const [size, unit] of SPANS) {
    if (rest < size && !(unit === 's' && parts.length === 0)) continue;
    parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(' ');
}

const of = (point, name) => point.values[names[name]];
const at = id => document.getElementById(id);
const words = name => name.replaceAll('_', ' ').replace('.', ' ');
const helpOf = name => help[names[name]] || '';

function measured(name) {
  return points.map(p => [of(p, 'step'), of(p, name)]).filter(p => p[1] !== null);
}

// Draws a part again only if its data changed, so that a reader's selection and scroll stay.
function draw(id, data, make) {
  const key = JSON.stringify(data);
  if (shown[id] === key) return;
  shown[id] = key;
  at(id).replaceChildren(...[make()].flat());
}

// The smallest of 1, 2, 5 times a power of ten that is at least `value`.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= value * 0.9999);
}

// At most 300 points of a line, means of equal parts.
function thinned(line) {
  const size = Math.ceil(line.length / 300), out = [];
  for (let i = 0; i < line.length; i += size) {
    const part = line.slice(i, i + size);
    out.push([part[part.length - 1][0], part.reduce((sum, p) => sum + p[1], 0) / part.length]);
  }
  return size > 1 ? out : line;
}

function chart(title, lines, top) {
  const found = lines.filter(([, data]) => data.length > 0);
  const all = found.flatMap(([, data]) => data.map(p => p[1]));
  const max = top || roundUp(Math.max(...all, 1e-9)), min = Math.min(0, ...all);
  const first = points.length ? of(points[0], 'step') : 0;
  const last = points.length ? of(points[points.length - 1], 'step') : 1;
  const x = step => LEFT + (WIDTH - LEFT - 4) * (step - first) / Math.max(1, last - first);
  const y = v => 6 + (HEIGHT - BOTTOM - 6) * (1 - (v - min) / (max - min));
  const picture = svg('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': title});
  for (const share of [0, 0.5, 1]) {
    const value = min + share * (max - min);
    picture.append(svg('line', {class: 'grid', x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value)}),
      svg('text', {x: LEFT - 4, y: y(value) + 3, 'text-anchor': 'end'}, tick(value)));
  }
  picture.append(svg('text', {x: LEFT, y: HEIGHT - 3}, number(first)),
    svg('text', {x: WIDTH - 4, y: HEIGHT - 3, 'text-anchor': 'end'}, `step ${number(last)}`));
  for (const point of points.filter(p => p.alarms.length > 0).slice(-20)) {
    const mark = svg('line', {class: 'mark', x1: x(of(point, 'step')), x2: x(of(point, 'step')),
      y1: 6, y2: HEIGHT - BOTTOM});
    mark.append(svg('title', {}, `${point.alarms.join(', ')} at step ${of(point, 'step')}`));
    picture.append(mark);
  }
  const legend = element('div', {className: 'legend'});
  for (const [label, data, shade, about] of found) {
    const drawn = thinned(data).map(p => `${x(p[0]).toFixed(1)},${y(Math.min(max, p[1])).toFixed(1)}`);
    const path = svg('path', {d: 'M' + (drawn.length > 1 ? drawn.join('L') : drawn + 'h2')});
    picture.append(color(path, shade, 'stroke'));
    legend.append(element('span', {title: about || ''}, color(element('i'), shade),
      `${label} ${number(data[data.length - 1][1])}`));
  }
  if (found.length === 0) legend.append(element('span', {className: 'muted'}, 'not measured'));
  return element('div', {className: 'chart'}, element('h2', {}, title), legend, picture);
}

// A chart of what the points hold by name under `key`, if there are two names or more.
function namedChart(title, key, top) {
  const all = [...new Set(points.flatMap(p => Object.keys(p[key])))].sort().slice(0, 12);
  if (all.length < 2) return [];
  const lines = all.map((name, i) => [name, points.map(p => [of(p, 'step'), p[key][name]])
    .filter(p => p[1] !== null && p[1] !== undefined), COLORS[i % COLORS.length]]);
  return [chart(title, lines, top)];
}

function evalChart() {
  if (evals.length === 0) return [];
  return [chart('Held-out prompts', EVALS.map((name, i) => [words(name),
    evals.map(e => [e.step, e[name]]).filter(e => e[1] !== null), COLORS[i]]))];
}

function showCharts() {
  const episodes = measured('episodes.turns_mean').length > 0 ? EPISODE_CHARTS : [];
  const control = measured('control.draw_factor').length > 0 ? CONTROL_CHARTS : [];
  const drawn = [...CHARTS, ...control, ...episodes].map(([title, lines, top]) => chart(title,
    lines.map((name, i) => [words(name), measured(name), COLORS[i], helpOf(name)]), top));
  drawn.splice(3, 0, ...namedChart('Collapse rate by source', 'sources', 1));
  drawn.splice(1, 0, ...namedChart('Components of the raw reward, before weighting', 'components'),
    ...evalChart());
  at('charts').replaceChildren(...drawn);
}

// The time to the last step at the pace of the newest points; null with fewer than two.
function secondsLeft(steps) {
  const recent = points.slice(-50);
  if (recent.length < 2) return null;
  const first = recent[0], last = recent[recent.length - 1];
  const pace = (of(last, 'time_unix') - of(first, 'time_unix')) / (of(last, 'step') - of(first, 'step'));
  return pace * (steps - of(last, 'step'));
}

function showHead(data) {
  const status = data.status, step = data.latest ? data.latest.step : 0;
  document.title = `${data.run}: step ${step}`;
  at('run').textContent = data.run;
  const state = status ? status.state : 'unknown';
  at('state').textContent = state;
  at('state').className = `badge ${state}`;
  at('progress').max = data.steps;
  at('progress').value = step;
  const parts = [`step ${step} of ${data.steps}`];
  if (state === 'running' && step < data.steps) parts.push(`${duration(secondsLeft(data.steps))} left`);
  if (status) parts.push(`checkpoint of step ${status.checkpoint_step}`);
  if (data.latest && state !== 'finished')
    parts.push(`last step ${duration(data.now_unix - data.latest.time_unix)} ago`);
  if (status && status.paused) parts.push(status.paused);
  if (status && status.end_reason) parts.push(`ended by the learner: ${status.end_reason}`);
  if (status && status.learner_epoch > 1) parts.push(`learner started ${status.learner_epoch} times`);
  if (status && status.coordinator_epoch > 1)
    parts.push(`coordinator started ${status.coordinator_epoch} times`);
  at('where').textContent = parts.join(' · ');
}

function showTiles(latest) {
  const mean = name => {
    const line = measured(name).slice(-10);
    return line.length ? line.reduce((sum, p) => sum + p[1], 0) / line.length : null;
  };
  const tiles = TILES.map(name => [words(name), mean(name)]);
  draw('tiles', tiles, () => tiles.map(([label, value], i) => element('div',
    {className: 'tile', title: `Mean of the last ten steps that have one. ${helpOf(TILES[i])}`},
    element('span', {className: 'muted'}, label), element('b', {}, number(value)))));
}

function showLearned(learned) {
  draw('learned', learned, () => {
    const {reward, accuracy, held_out: held} = learned;
    const changes = [['raw reward', reward.first, reward.last, reward],
      ['accuracy', accuracy.first, accuracy.last, accuracy]];
    if (held) changes.push(['held-out accuracy', held.before, held.after, held]);
    const table = element('table', {}, row(['', 'first tenth, or before', 'last tenth, or after',
      'difference, 95 %', 'verdict'], 'th'), ...changes.map(([label, first, last, change]) =>
      row([label, number(first), number(last), change.low === null ? '–' :
        `${number(change.low)} to ${number(change.high)}`, change.verdict])));
    const share = value => `${(100 * value).toFixed(1)} %`;
    return [element('div', {className: 'scroll'}, table),
      element('p', {}, `${share(learned.taught)} of the groups taught; ` +
        `${share(learned.unscorable)} of the completions had no verdict.`),
      element('p', {className: 'muted'}, reward.verdict === 'too few steps' ? '' :
        `Look at: ${learned.look_at}`)];
  });
}

function bar(parts) {
  const total = parts.reduce((sum, part) => sum + part[1], 0);
  const node = element('div', {className: 'bar'});
  for (const [label, value, shade] of parts) {
    const piece = color(element('span', {title: `${label} ${number(value)}`}), shade);
    piece.style.width = `${100 * value / total}%`;
    node.append(piece);
  }
  return node;
}

function row(cells, kind = 'td') {
  return element('tr', {}, ...cells.map((cell, i) => element(kind, {className: i ? 'n' : ''},
    cell instanceof Node ? cell : String(cell))));
}

// The numbers of a v1.CollapseCounts.
function countsOf(message) {
  const counts = Object.fromEntries(['groups', ...CLASSES.map(([key]) => key)]
    .map(key => [key, Number((message || {})[key] || 0)]));
  const constant = counts.all_correct + counts.all_wrong + counts.other_constant;
  counts.acr = constant + counts.mixed > 0 ? constant / (constant + counts.mixed) : null;
  return counts;
}

function showClasses(status) {
  const sources = Object.entries(status ? status.collapse_by_source : {}).sort();
  const rows = status ? [['all', status.collapse], ...sources] : [];
  const skipped = Object.entries(status ? status.skipped_by_source : {}).sort()
    .map(([source, {reasons}]) => [source, Object.entries(reasons).filter(([, n]) => Number(n) > 0)])
    .filter(([, reasons]) => reasons.length > 0);
  const controls = (status && status.controls || []).filter(tally => Number(tally.controls) > 0);
  draw('classes', [rows, skipped, controls], () => rows
    .filter((_, i) => i === 0 || rows.length > 2)
    .flatMap(([source, message]) => {
      const counts = countsOf(message);
      const parts = CLASSES.map(([key, shade]) => [words(key), counts[key], shade]);
      const legend = element('div', {className: 'legend'});
      for (const [label, value, shade] of parts.filter(part => part[1] > 0))
        legend.append(element('span', {}, color(element('i'), shade), `${label} ${value}`));
      return [element('div', {}, `${source}: ${counts.groups} groups, ACR ${number(counts.acr)}`),
        bar(parts), legend];
    }).concat(skipped.map(([source, reasons]) => element('div', {className: 'muted'},
      `prompts ${source ? `of ${source} ` : ''}passed over: ` +
        reasons.map(([reason, count]) => `${count} ${reason}`).join(', '))),
    controls.map(tally => element('div', {className: tally.alarm ? 'alarm active' : 'muted'},
      `controls${tally.source ? ` of ${tally.source}` : ''}: ${tally.failed} of ${tally.controls} ` +
        `answers of known verdict misjudged${tally.alarm ? ': do not trust the verifier' : ''}`))));
}

const FATES = [['trained', 'green'], ['masked', 'grey'], ['stale', 'amber'], ['cut', 'red'],
  ['parked', 'blue']];

function showTokens(status) {
  const tokens = status && status.tokens || {};
  const total = Number(tokens.generated || 0);
  draw('tokens', tokens, () => {
    if (total === 0) return element('p', {className: 'muted'}, 'none yet');
    const parts = FATES.map(([fate, shade]) => [fate, Number(tokens[fate]), shade])
      .filter(part => part[1] > 0);
    const legend = element('div', {className: 'legend'});
    for (const [fate, count, shade] of parts)
      legend.append(element('span', {}, color(element('i'), shade),
        `${fate} ${(100 * count / total).toFixed(1)} %`));
    return [element('div', {}, `${total} sampled`), bar(parts), legend];
  });
}

function showTime() {
  const recent = points.slice(-50);
  const sum = name => recent.reduce((total, p) => total + (of(p, name) || 0), 0);
  const whole = sum('seconds.step');
  // seconds.busy adds up some of the others.
  const phases = Object.keys(names).filter(name => name.startsWith('seconds.') &&
    name !== 'seconds.step' && name !== 'seconds.busy');
  const parts = phases.map((name, i) =>
    [words(name.slice('seconds.'.length)), sum(name), COLORS[i % COLORS.length]]);
  const rest = whole - parts.reduce((total, part) => total + part[1], 0);
  if (rest > 0) parts.push(['other', rest, 'soft']);
  draw('time', parts, () => {
    if (!(whole > 0)) return element('p', {className: 'muted'}, 'no step yet');
    const table = element('table', {});
    for (const [label, seconds] of parts.filter(part => part[1] > 0.005 * whole))
      table.append(row([label, `${(100 * seconds / whole).toFixed(0)} %`,
        `${number(seconds / recent.length)} s a step`]));
    const waits = sum('seconds.wait') / whole;
    return [bar(parts), table, element('p', {className: 'muted'}, waits > 0.3 ?
      'The learner waits for groups: rollout is the bottleneck. More workers help.' :
      'The last 50 steps, rank 0.')];
  });
}

// Shares of the time since the start of each worker, or between two looks at it.
const earlier = {};  // by name: an older report, at least half a minute before the newest
function recentTime(name, time) {
  const kept = earlier[name] || (earlier[name] = [time]);
  const newest = kept[kept.length - 1];
  if (time.up_seconds < newest.up_seconds) kept.length = 0;  // a new process
  if (kept.length === 0 || time.up_seconds - newest.up_seconds >= 30) kept.push(time);
  if (kept.length > 3) kept.shift();
  const base = kept[0].up_seconds < time.up_seconds ? kept[0] : {};
  const since = key => Math.max(0, time[key] - (base[key] || 0));
  return Object.fromEntries(Object.keys(time).map(key => [key, since(key)]));
}

function timeBar(name, time, phases, restName) {
  const recent = recentTime(name, time);
  const parts = phases.map(([label, key, shade]) => [label, recent[key], shade]);
  const rest = recent.up_seconds - parts.reduce((total, part) => total + part[1], 0);
  if (rest > 0) parts.push([restName, rest, 'soft']);
  const whole = parts.reduce((total, part) => total + part[1], 0);
  const legend = element('div', {className: 'legend'});
  for (const [label, seconds, shade] of parts.filter(part => part[1] > 0.005 * whole))
    legend.append(element('span', {}, color(element('i'), shade),
      `${label} ${(100 * seconds / whole).toFixed(0)} %`));
  return whole > 0 ? [element('div', {}, name), bar(parts), legend] : [];
}

function showTimes(status) {
  const workers = status ? status.workers.filter(w => w.time && w.registered).slice(0, 16) : [];
  const time = status ? status.coordinator_time : null;
  const own = time ? {up_seconds: time.up_seconds, ledger: time.ledger_seconds,
    loop: time.busy_seconds - time.ledger_seconds} : null;
  draw('times', [own, workers.map(w => w.time)], () => {
    if (!own) return element('p', {className: 'muted'}, 'not known');
    const parts = timeBar('coordinator', own, COORDINATOR_PHASES, 'idle');
    for (const worker of workers)
      parts.push(...timeBar(worker.worker_id, worker.time, WORKER_PHASES, 'other'));
    return [...parts, element('p', {className: 'muted'},
      'Since the start of the process, then of the last minute or so.')];
  });
}

function showWorkers(status) {
  const workers = status ? status.workers : [];
  const ORDERS = {WORKER_ORDER_CORDON: 'cordon', WORKER_ORDER_DRAIN: 'drain'};
  const state = w => !w.registered ? 'not registered' : w.silent_ms > 15000 ? 'silent' :
    ORDERS[w.order] || 'works';
  const rows = workers.map(w => [w.worker_id, state(w), w.leases,
    `step ${w.loaded_version ? w.loaded_version.step : 0}`, duration(w.silent_ms / 1000)]);
  draw('workers', rows, () => {
    if (rows.length === 0) return element('p', {className: 'muted'}, 'none has registered');
    const table = element('table', {}, row(['worker', 'state', 'leases', 'weights', 'heard'], 'th'),
      ...rows.map(cells => row(cells)));
    const more = status.workers_total - workers.length;
    return [element('div', {className: 'scroll'}, table),
      element('p', {className: 'muted'}, more > 0 ? `${more} more` : '')];
  });
}

function showAlarms(alarms) {
  at('alarms').hidden = alarms.length === 0;
  draw('alarms', alarms, () => [element('h2', {}, 'Alarms'), ...alarms.map(alarm => element('div',
    {className: alarm.active ? 'alarm active' : 'alarm'},
    element('b', {}, alarm.name), alarm.active ? ' holds now' : ' is over',
    alarm.step === null ? '' : `, began with step ${alarm.step}`,
    element('div', {}, alarm.meaning),
    element('div', {className: 'muted'}, alarm.advice)))]);
}

// "", or the components of a weighted sum by name.
function components(completion) {
  const parts = Object.entries(completion.components).map(([name, value]) => `${name} ${number(value)}`);
  return parts.length ? ` (${parts.join(', ')})` : '';
}

const saidBy = (messages, className) => messages.map(message => element('pre', {className},
  element('span', {className: 'muted'}, `${message.role}: `), message.content));

// The text of a completion; of an episode, what the policy wrote apart from what others did.
function conversation(completion) {
  if (!completion.parts || !completion.parts.length)
    return [element('pre', {}, completion.text !== null ? completion.text : completion.unscorable || '')];
  let turn = 0;
  const said = completion.parts.flatMap(part => {
    if (part.by !== 'policy') return saidBy(part.messages, 'environment');
    const of = completion.turns[turn++];
    const tools = of.tools.map((tool) => `, ${tool || 'unreadable call'}`).join('');
    const failed = of.failed_tools ? `, ${of.failed_tools} failed` : '';
    return [element('pre', {className: 'policy'}, part.messages[0].content), element('div', {className: 'muted'},
      `turn ${turn}: reward ${number(of.reward)}, asked after ${of.waited_ms} ms, ` +
      `answered in ${of.sampled_ms} ms${tools}${failed}`)];
  });
  return [element('div', {className: 'conversation'}, ...said)];
}

function group(data) {
  const node = element('div', {className: 'group'}, element('b', {}, data.class.replace('_', ' ')),
    element('span', {className: 'muted'}, ` step ${data.step}, group ${data.group}, prompt ` +
      `${data.prompt}` + (data.source ? ` of ${data.source}` : '') +
      (data.tried ? `; ${data.tried} completions in the run, all wrong` : '')));
  if (data.why_no_texts) node.append(element('p', {className: 'muted'}, data.why_no_texts));
  if (data.messages.length) node.append(...saidBy(data.messages, 'prompt'));
  else if (data.text !== null) node.append(element('pre', {className: 'prompt'}, data.text));
  for (const c of data.completions) {
    const note = element('div', {}, element('span', {className: c.outcome}, c.outcome),
      element('span', {className: 'muted'}, ` raw reward ${number(c.raw_reward)}`, components(c),
        `, ${c.tokens} tok`, c.end ? `, end ${c.end}` : '',
        c.parent === undefined ? '' : `, branch of ${c.parent}`),
      c.truncated ? element('span', {className: 'truncated'}, ' truncated') : null);
    node.append(element('div', {className: 'completion'}, note, ...conversation(c)));
  }
  const more = data.completions_total - data.completions.length;
  if (more > 0) node.append(element('p', {className: 'muted'}, `${more} more`));
  return node;
}

function showGroups(id, groups, none) {
  draw(id, groups, () => groups && groups.length ? groups.map(group) :
    element('p', {className: 'muted'}, none));
}

// Of a page without a server: the causes for which groups gave no signal.
function showCauses(causes) {
  at('why').hidden = !causes;
  if (!causes) return;
  draw('causes', causes, () => [
    element('p', {}, `${causes.collapsed} of ${causes.groups} groups gave no signal.`),
    element('table', {}, ...causes.rows.map(cause => element('tr', {},
      element('th', {}, cause.name.replaceAll('_', ' ')),
      element('td', {className: 'n'}, String(cause.groups)),
      element('td', {}, cause.meaning, element('div', {className: 'muted'}, cause.fix))))),
    ...causes.next.map(text => element('p', {}, text))]);
}

function showLog(log) {
  draw('log', log, () => log.length === 0 ? element('p', {className: 'muted'}, 'none') :
    element('div', {className: 'scroll'}, ...log.map(line => element('div', {},
      element('span', {className: 'muted'}, `${line.time.slice(11, 19)} ${line.who} `),
      element('span', {className: line.level}, line.text)))));
}

function showProblems(problems) {
  at('problems').hidden = problems.length === 0;
  draw('problems', problems, () => problems.map(text => element('div', {className: 'error'}, text)));
}

function take(data) {
  if (data.generation !== generation) points = [];
  generation = data.generation;
  names = Object.fromEntries(data.names.map((name, i) => [name, i]));
  help = data.help;
  points.push(...data.points);
  evals = data.evals;
}

function show(data) {
  showHead(data);
  showProblems(data.problems);
  showAlarms(data.alarms);
  if (data.points.length || !at('charts').firstChild) showCharts();
  showTiles(data.latest);
  if (data.learned) showLearned(data.learned);
  showClasses(data.status);
  showTokens(data.status);
  showCauses(data.causes);
  showTime();
  showWorkers(data.status);
  showTimes(data.status);
  showLog(data.log);
  showGroups('samples', data.samples, 'no step has been planned yet');
  showGroups('unsolved', data.unsolved,
    'none: every prompt that was sampled twice lately has a correct completion');
}

async function poll() {
  let again = POLL_MS;
  try {
    const after = points.length ? of(points[points.length - 1], 'step') : -1;
    const reply = await fetch(`data?after=${after}&generation=${generation}`,
      {signal: AbortSignal.timeout(15000)});
    if (reply.status === 401) throw new Error('the coordinator was restarted; `buttress status` ' +
      'prints a new link');
    if (!reply.ok) throw new Error(`the coordinator answers ${reply.status}`);
    const data = await reply.json();
    take(data);
    if (data.more) again = 0; else show(data);
    received = Date.now();
    failure = '';
  } catch (error) {
    failure = error.name === 'TypeError' ? 'the coordinator does not answer: has the run ended?' :
      error.message;
  }
  setTimeout(poll, again);
}

function showFreshness() {
  const seconds = Math.round((Date.now() - received) / 1000);
  at('fresh').textContent = failure ? `${failure} (data of ${duration(seconds)} ago)` : '';
  at('fresh').className = failure ? 'lost' : 'muted';
}

const stored = at('data');
if (stored) {
  const data = JSON.parse(stored.textContent);
  take(data);
  show(data);
  for (const id of ['workers', 'times'])
    at(id).parentNode.hidden = !data.status || data.status.workers.length === 0;
  at('fresh').textContent = `written ${new Date(1000 * data.now_unix).toLocaleString()}`;
} else {
  setInterval(showFreshness, 1000);
  poll();
}
