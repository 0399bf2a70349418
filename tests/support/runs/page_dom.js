// Runs the script of a page that holds its data, without a browser, and prints the text of each
// element that has an id: node page_dom.js PAGE.html
'use strict';

const page = require('fs').readFileSync(process.argv[2], 'utf8');

// What page.js uses of a node.
class Node {
  constructor(name) {
    Object.assign(this, {name, children: [], style: {setProperty() {}}, attributes: {}, own: ''});
  }
  set textContent(text) { this.own = String(text); this.children = []; }
  get textContent() {
    return this.own + this.children.map(child => child.textContent).join(' ');
  }
  get firstChild() { return this.children[0] || null; }
  append(...nodes) {
    this.children.push(...nodes.map(node => {
      if (node instanceof Node) return node;
      const text = new Node('#text');
      text.textContent = node;
      return text;
    }));
  }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
}

const byId = {};
for (const [, id] of page.matchAll(/ id="([a-z]+)"/g)) {
  byId[id] = new Node(id);
  byId[id].parentNode = new Node('parent');
}
byId.data.textContent = page.match(/<script id="data"[^>]*>([^]*?)<\/script>/)[1];
const document = {
  createElement: name => new Node(name),
  createElementNS: (_, name) => new Node(name),
  getElementById: id => byId[id] || null,
};
const script = page.match(/<script>([^]*?)<\/script>/)[1];
new Function('document', 'Node', 'setInterval', 'setTimeout', 'fetch', script)(
  document, Node, ...['setInterval', 'setTimeout', 'fetch'].map(name => () => {
    throw new Error(`a page that holds its data calls ${name}`);
  }));
delete byId.data;
for (const [id, node] of Object.entries(byId)) console.log(`${id}: ${node.textContent}`);
