// ---- The data that the page carries: facts as JSON, and columns as PackedColumns (C++) packs them.
const facts = JSON.parse(document.getElementById('facts').textContent);

async function inflate(base64) {
  const packed = Uint8Array.from(atob(base64.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Columns are unpacked when they are first asked for.
class Columns {
  constructor(index, bytes) {
    this.index = index;
    this.bytes = bytes;
    this.known = new Map();
    const [first, count] = index.texts;
    this.texts = new TextDecoder().decode(bytes.subarray(first)).split('\0', count);
  }

  has(name) { return this.index[name] !== undefined && this.index[name][1] > 0; }

  get(name) {
    let values = this.known.get(name);
    if (values === undefined) {
      values = this.index[name] === undefined ? new Float64Array(0) : this.unpack(...this.index[name]);
      this.known.set(name, values);
    }
    return values;
  }

  unpack(at, count, hasDeltas) {
    const {bytes} = this;
    const values = new Float64Array(count);
    let before = 0;
    for (let i = 0; i < count; ++i) {
      let value = 0;
      let scale = 1;
      let byte = bytes[at++];
      for (; byte >= 128; byte = bytes[at++], scale *= 128) value += (byte - 128) * scale;
      value += byte * scale;
      value = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      values[i] = hasDeltas ? (before += value) : value;
    }
    return values;
  }

  // The rows of a table, as objects: `names` are its columns; those in `texts` become text.
  rows(prefix, names, texts) {
    const lists = names.map((name) => this.get(prefix + '.' + name));
    const isText = names.map((name) => texts.includes(name));
    return Array.from(lists[0], (_, i) => {
      const row = {index: i};
      names.forEach((name, c) => { row[name] = isText[c] ? this.texts[lists[c][i]] : lists[c][i]; });
      return row;
    });
  }

  // What of each row's sums began in a window: row -> [a, b, c, d].
  shares(prefix, window) {
    const windows = this.get(prefix + '.window');
    let low = 0;
    let high = windows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (windows[middle] < window) low = middle + 1;
      else high = middle;
    }
    const [row, a, b, c, d] = ['row', 'a', 'b', 'c', 'd'].map((name) => this.get(prefix + '.' + name));
    const shares = new Map();
    for (let i = low; i < windows.length && windows[i] === window; ++i) shares.set(row[i], [a[i], b[i], c[i], d[i]]);
    return shares;
  }
}
