// ---- A table that is sorted by its headers, searched, and shown in parts.
const ROWS_AT_ONCE = 30;

// `columns`: {key, title, text(row) or nothing for plain text, value(row) for the order, bar: the
// whole that its bar is a part of}. A column with `value` is a number.
class SortedTable {
  constructor(name, columns, sortKey) {
    this.name = name;
    this.columns = columns;
    this.key = sortKey;
    this.isDown = true;
    this.shown = ROWS_AT_ONCE;
    this.all = [];
    this.element = make('div', 'table');
    this.table = this.element.appendChild(make('table'));
    this.head = this.table.appendChild(make('thead')).appendChild(make('tr'));
    this.body = this.table.appendChild(make('tbody'));
    this.more = this.element.appendChild(button('', 'More rows', () => {
      this.shown += 300;
      this.show();
    }));
  }

  setRows(rows) {
    this.all = rows;
    this.show();
  }

  sortBy(key, isDown) {
    if (!this.columns.some((column) => column.key === key)) return;
    this.key = key;
    this.isDown = isDown;
  }

  value(column, row) { return column.value !== undefined ? column.value(row) : row[column.key]; }

  // The rows that the search leaves, in order.
  rows() {
    const column = this.columns.find((one) => one.key === this.key);
    const sign = this.isDown ? -1 : 1;
    return this.all.filter((row) => row.texts === undefined || search.accepts(row.texts)).sort((a, b) => {
      const [left, right] = [this.value(column, a), this.value(column, b)];
      const order = typeof left === 'string' ? -(left < right ? -1 : left > right ? 1 : 0) : left - right;
      return sign * order || a.index - b.index;
    });
  }

  show() {
    this.head.replaceChildren(...this.columns.map((column) => this.header(column)));
    const rows = this.rows();
    this.body.replaceChildren(...rows.slice(0, this.shown).map((row) => this.row(row)));
    this.more.hidden = rows.length <= this.shown;
    this.more.textContent = `Show more (${count(rows.length - this.shown)})`;
  }

  header(column) {
    const header = make('th', column.value !== undefined ? 'number' : '');
    const isSorted = column.key === this.key;
    header.setAttribute('aria-sort', !isSorted ? 'none' : this.isDown ? 'descending' : 'ascending');
    const title = column.title + (!isSorted ? '' : this.isDown ? ' ▾' : ' ▴');
    const control = header.appendChild(button(title, column.help || column.title, () => {
      this.isDown = isSorted ? !this.isDown : true;
      this.key = column.key;
      this.show();
      remember();
      this.head.querySelector(`[data-key="${column.key}"]`).focus();
    }));
    control.dataset.key = column.key;
    return header;
  }

  row(row) {
    const element = make('tr');
    for (const column of this.columns) {
      const text = column.text !== undefined ? column.text(row) : row[column.key];
      const cell = element.appendChild(make('td', column.value !== undefined ? 'number' : 'name', text));
      if (column.value === undefined) cell.title = text;
      if (column.bar !== undefined && column.bar() > 0) {
        const part = Math.max(0, Math.min(100, 100 * this.value(column, row) / column.bar()));
        cell.classList.add('bar');
        cell.style.backgroundSize = part.toFixed(1) + '% 100%';
      }
    }
    if (row.open !== undefined) {
      element.classList.add('opens');
      element.addEventListener('click', row.open);
      // A button, so that it is reached by keys; its click is the row's.
      const opener = make('button', 'opener', element.firstChild.textContent);
      opener.type = 'button';
      element.firstChild.replaceChildren(opener);
    }
    return element;
  }
}

// The search of the whole page.
const search = {
  query: '',
  test: null,
  set(query) {
    this.query = query;
    this.test = null;
    if (query === '') return;
    const expression = /^\/(.+)\/$/.exec(query);
    if (expression !== null) {
      try {
        const compiled = new RegExp(expression[1], 'i');
        this.test = (text) => compiled.test(text);
        return;
      } catch {
        this.test = () => false;
        return;
      }
    }
    const lower = query.toLowerCase();
    this.test = (text) => text.toLowerCase().includes(lower);
  },
  accepts(texts) { return this.test === null || texts.some((text) => this.test(text)); },
};
