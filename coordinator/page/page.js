// Polls /data and shows it. Every text of the run is set as textContent: nothing that a policy
// writes becomes markup.
'use strict';

const POLL_MS = 2000, MAX_POINTS = 8192, WIDTH = 320, HEIGHT = 150, LEFT = 38, BOTTOM = 16;
const SVG = 'http://www.w3.org/2000/svg';
const COLORS = ['blue', 'amber', 'green', 'red', 'violet', 'grey'];
const SPANS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
// Title, [label, name of a measurement, color] of each line, and the top of the axis if it is fixed.
const CHARTS = [
  ['Reward and accuracy', [['raw reward', 'reward_mean', 'blue'], ['accuracy', 'accuracy', 'green']]],
  ['Advantage collapse rate', [['raw', 'acr', 'blue'], ['effective', 'acr_effective', 'red'],
    ['expected', 'acr_expected', 'grey']], 1],
  ['Collapse by class', [['all correct', 'acr_all_correct', 'green'],
    ['all wrong', 'acr_all_wrong', 'red'], ['other', 'acr_other', 'violet']], 1],
  ['Entropy (nats per token)', [['entropy', 'entropy', 'violet']]],
  ['KL (nats)', [['learner to sampler', 'kl', 'blue'], ['from the start', 'start_kl', 'amber']]],
  ['Length (tokens)', [['mean', 'length_mean', 'blue']]],
  ['Truncated and distinct', [['truncated', 'truncated_share', 'amber'],
    ['distinct in a group', 'distinct_share', 'blue']], 1],
  ['Age of the tokens (versions)', [['mean', 'token_age.mean', 'blue']]],
  ['Throughput (tokens per second)', [['generated', 'tokens_per_second', 'blue'],
    ['fresh', 'speed.fresh', 'green']]],
];
const PHASES = [['waits for groups', 'seconds.wait', 'amber'], ['fetches', 'seconds.fetch', 'grey'],
  ['forward', 'seconds.forward', 'blue'], ['backward', 'seconds.backward', 'violet'],
  ['reduces', 'seconds.reduce', 'green'], ['optimizer', 'seconds.optimizer', 'blue'],
  ['publishes', 'seconds.publish', 'green'], ['checkpoint', 'seconds.checkpoint', 'grey'],
  ['waits for weights', 'seconds.wait_weights', 'amber'],
  ['waits for peers', 'seconds.wait_peers', 'red']];
const WORKER_PHASES = [['generates', 'generating', 'blue'], ['scores', 'scoring', 'violet'],
  ['waits for leases', 'no_lease', 'amber'], ['waits for weights', 'wait_weights', 'red'],
  ['submits', 'submitting', 'green']];
const COORDINATOR_PHASES = [['writes the ledger', 'ledger', 'green'], ['other work', 'loop', 'blue']];
const CLASSES = [['mixed', 'mixed', 'blue'], ['all correct', 'all_correct', 'green'],
  ['all wrong', 'all_wrong', 'red'], ['other constant', 'other_constant', 'violet'],
  ['unscorable', 'unscorable', 'grey']];

const EVALS = [['accuracy', 'accuracy', 'green'], ['raw reward', 'reward_mean', 'blue'],
  ['truncated', 'truncated_share', 'amber']];

let generation = 0, points = [], evals = [], names = {}, received = 0, failure = '';
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
  const found = lines.map(([label, data, shade]) => [label, data, shade])
    .filter(([, data]) => data.length > 0);
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
      svg('text', {x: LEFT - 4, y: y(value) + 3, 'text-anchor': 'end'}, number(value)));
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
  for (const [label, data, shade] of found) {
    const drawn = thinned(data).map(p => `${x(p[0]).toFixed(1)},${y(Math.min(max, p[1])).toFixed(1)}`);
    const path = svg('path', {d: 'M' + (drawn.length > 1 ? drawn.join('L') : drawn + 'h2')});
    picture.append(color(path, shade, 'stroke'));
    legend.append(element('span', {}, color(element('i'), shade),
      `${label} ${number(data[data.length - 1][1])}`));
  }
  if (found.length === 0) legend.append(element('span', {className: 'muted'}, 'not measured'));
  return element('div', {className: 'chart'}, element('h2', {}, title), legend, picture);
}

function sourceChart() {
  const sources = [...new Set(points.flatMap(p => Object.keys(p.sources)))].sort().slice(0, 6);
  if (sources.length < 2) return [];
  const lines = sources.map((source, i) => [source, points.map(p => [of(p, 'step'),
    p.sources[source]]).filter(p => p[1] !== null && p[1] !== undefined), COLORS[i]]);
  return [chart('Collapse rate by source', lines, 1)];
}

function evalChart() {
  if (evals.length === 0) return [];
  return [chart('Held-out prompts', EVALS.map(([label, name, shade]) => [label,
    evals.map(e => [e.step, e[name]]).filter(e => e[1] !== null), shade]))];
}

function showCharts() {
  const drawn = CHARTS.map(([title, lines, top]) => chart(title,
    lines.map(([label, name, shade]) => [label, measured(name), shade]), top));
  drawn.splice(3, 0, ...sourceChart());
  drawn.splice(1, 0, ...evalChart());
  at('charts').replaceChildren(...drawn);
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
  if (state === 'running' && step < data.steps) parts.push(`${duration(data.seconds_left)} left`);
  if (status) parts.push(`checkpoint of step ${status.checkpoint_step}`);
  if (data.latest) parts.push(`last step ${duration(data.now_unix - data.latest.time_unix)} ago`);
  if (status && status.paused) parts.push(status.paused);
  if (status && status.end_reason) parts.push(`ended by the learner: ${status.end_reason}`);
  if (status && status.learner_starts > 1) parts.push(`learner started ${status.learner_starts} times`);
  if (status && status.coordinator_starts > 1)
    parts.push(`coordinator started ${status.coordinator_starts} times`);
  at('where').textContent = parts.join(' · ');
}

function showTiles(latest) {
  const mean = name => {
    const line = measured(name).slice(-10);
    return line.length ? line.reduce((sum, p) => sum + p[1], 0) / line.length : null;
  };
  const tiles = [['raw reward', 'reward_mean'], ['ACR, raw', 'acr'], ['ACR, effective', 'acr_effective'],
    ['entropy', 'entropy'], ['KL', 'kl'], ['length', 'length_mean'], ['token age', 'token_age.mean'],
    ['tokens/s', 'tokens_per_second']].map(([label, name]) => [label, mean(name)]);
  draw('tiles', tiles, () => tiles.map(([label, value]) => element('div',
    {className: 'tile', title: 'mean of the last ten steps that have one'},
    element('span', {className: 'muted'}, label), element('b', {}, number(value)))));
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

function showClasses(status) {
  const rows = status ? [['all', status.collapse], ...Object.entries(status.sources)] : [];
  const skipped = Object.entries(status ? status.skipped : {}).map(([source, reasons]) =>
    element('div', {className: 'muted'}, `prompts ${source ? `of ${source} ` : ''}passed over: ` +
      Object.entries(reasons).map(([reason, count]) => `${count} ${reason}`).join(', ')));
  draw('classes', [rows, status && status.skipped], () => rows
    .filter((_, i) => i === 0 || rows.length > 2)
    .flatMap(([source, counts]) => {
      const parts = CLASSES.map(([label, key, shade]) => [label, counts[key], shade]);
      const legend = element('div', {className: 'legend'});
      for (const [label, value, shade] of parts.filter(part => part[1] > 0))
        legend.append(element('span', {}, color(element('i'), shade), `${label} ${value}`));
      return [element('div', {}, `${source}: ${counts.groups} groups, ACR ${number(counts.acr)}`),
        bar(parts), legend];
    }).concat(skipped));
}

function showTime() {
  const recent = points.slice(-50);
  const sum = name => recent.reduce((total, p) => total + (of(p, name) || 0), 0);
  const whole = sum('seconds.step');
  const parts = PHASES.map(([label, name, shade]) => [label, sum(name), shade]);
  const rest = whole - parts.reduce((total, part) => total + part[1], 0);
  if (rest > 0) parts.push(['other', rest, 'soft']);
  draw('time', parts, () => {
    if (!(whole > 0)) return element('p', {className: 'muted'}, 'no step yet');
    const table = element('table', {});
    for (const [label, seconds] of parts.filter(part => part[1] > 0.005 * whole))
      table.append(row([label, `${(100 * seconds / whole).toFixed(0)} %`,
        `${number(seconds / recent.length)} s a step`]));
    const waits = parts[0][1] / whole;
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
  if (time.up < newest.up) kept.length = 0;  // a new process
  if (kept.length === 0 || time.up - newest.up >= 30) kept.push(time);
  if (kept.length > 3) kept.shift();
  const base = kept[0].up < time.up ? kept[0] : {};
  const since = key => Math.max(0, time[key] - (base[key] || 0));
  return Object.fromEntries(Object.keys(time).map(key => [key, since(key)]));
}

function timeBar(name, time, phases, restName) {
  const recent = recentTime(name, time);
  const parts = phases.map(([label, key, shade]) => [label, recent[key], shade]);
  const rest = recent.up - parts.reduce((total, part) => total + part[1], 0);
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
  const own = status ? {up: status.time.up, ledger: status.time.ledger,
    loop: status.time.busy - status.time.ledger} : null;
  draw('times', [own, workers.map(w => w.time)], () => {
    if (!status) return element('p', {className: 'muted'}, 'not known');
    const parts = timeBar('coordinator', own, COORDINATOR_PHASES, 'idle');
    for (const worker of workers)
      parts.push(...timeBar(worker.worker, worker.time, WORKER_PHASES, 'other'));
    return [...parts, element('p', {className: 'muted'},
      'Since the start of the process, then of the last minute or so.')];
  });
}

function showWorkers(status) {
  const workers = status ? status.workers : [];
  const state = w => !w.registered ? 'not registered' : w.silent_seconds > 15 ? 'silent' :
    w.order || 'works';
  const rows = workers.map(w => [w.worker, state(w), w.leases, `step ${w.version}`,
    duration(w.silent_seconds)]);
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
    element('div', {}, alarm.meaning), element('div', {className: 'muted'}, alarm.remedy)))]);
}

function group(data) {
  const node = element('div', {className: 'group'}, element('b', {}, data.class.replace('_', ' ')),
    element('span', {className: 'muted'}, ` step ${data.step}, group ${data.group}, prompt ` +
      `${data.prompt}` + (data.source ? ` of ${data.source}` : '') +
      (data.tried ? `; ${data.tried} completions in the run, all wrong` : '')));
  if (data.why_no_texts) node.append(element('p', {className: 'muted'}, data.why_no_texts));
  if (data.text !== null) node.append(element('pre', {className: 'prompt'}, data.text));
  for (const c of data.completions) {
    const note = element('div', {}, element('span', {className: c.outcome}, c.outcome),
      element('span', {className: 'muted'}, ` ${number(c.reward)}, ${c.tokens} tok`),
      c.truncated ? element('span', {className: 'truncated'}, ' truncated') : null);
    node.append(element('div', {className: 'completion'}, note,
      element('pre', {}, c.text !== null ? c.text : c.unscorable || '')));
  }
  const more = data.completions_total - data.completions.length;
  if (more > 0) node.append(element('p', {className: 'muted'}, `${more} more`));
  return node;
}

function showGroups(id, groups, none) {
  draw(id, groups, () => groups && groups.length ? groups.map(group) :
    element('p', {className: 'muted'}, none));
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
  points.push(...data.points);
  evals = data.evals;
  if (points.length > MAX_POINTS) points = points.filter((_, i) => i % 2 === 1);
}

function show(data) {
  showHead(data);
  showProblems(data.problems);
  showAlarms(data.alarms);
  if (data.points.length || !at('charts').firstChild) showCharts();
  showTiles(data.latest);
  showClasses(data.status);
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

setInterval(showFreshness, 1000);
poll();
