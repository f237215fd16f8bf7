'use strict';

(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const status = document.getElementById('status');
  const every = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // Only with the script running do sliders and buttons do anything; the style hides them without it.
  document.documentElement.classList.add('live');

  const say = (words) => { status.textContent = words; };

  // Theme: the reader's system decides until the button is pressed.

  function prepareTheme(button) {
    const system = matchMedia('(prefers-color-scheme: dark)');
    const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
    const show = () => button.setAttribute('aria-pressed', String(isDark()));
    button.addEventListener('click', () => {
      document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
      show();
    });
    system.addEventListener('change', show);
    show();
  }

  // Downloads: the files are in the page; nothing is fetched.

  function offer(name, text, type) {
    const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
    const link = document.createElement('a');
    link.href = address;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    say(`${name} is saved with your downloads.`);
  }

  function download(what) {
    if (what === 'report') {
      offer(data.report.name, `${JSON.stringify(data.report.content, null, 2)}\n`, 'application/json');
    } else {
      offer(data.tables[what].name, data.tables[what].text, 'text/csv');
    }
  }

  // Tables: numbers are sorted by value, texts by letters, and what is missing comes last either way.

  function keyOf(row, place) {
    const cell = row.cells[place];
    if ('missing' in cell.dataset) return { rank: 2 };
    if ('value' in cell.dataset) return { rank: 0, value: Number(cell.dataset.value) };
    return { rank: 1, value: cell.textContent };
  }

  function compare(one, other, sign) {
    if (one.rank === 2 || other.rank === 2 || one.rank !== other.rank) {
      return one.rank === 2 || other.rank === 2 ? one.rank - other.rank : sign * (one.rank - other.rank);
    }
    if (one.rank === 0) return sign * (one.value - other.value);
    return sign * one.value.localeCompare(other.value, 'en', { numeric: true });
  }

  function sortBy(table, heading) {
    const direction = heading.getAttribute('aria-sort') === 'ascending' ? 'descending' : 'ascending';
    const sign = direction === 'ascending' ? 1 : -1;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute('aria-sort');
    heading.setAttribute('aria-sort', direction);
    const keyed = Array.from(table.tBodies[0].rows, (row) => ({ row, key: keyOf(row, heading.cellIndex) }));
    keyed.sort((one, other) => compare(one.key, other.key, sign));
    table.tBodies[0].append(...keyed.map(({ row }) => row));
  }

  function prepareTable(table) {
    for (const heading of table.tHead.rows[0].cells) {
      heading.querySelector('button').addEventListener('click', () => sortBy(table, heading));
    }
  }

  // Gallery: a slider uncovers the true picture below the recovered one.

  function prepareSlider(slider) {
    const pictures = slider.closest('.card').querySelector('.pictures');
    const show = () => {
      pictures.style.setProperty('--split', `${slider.value}%`);
      slider.setAttribute('aria-valuetext', `${slider.value} % recovered, ${100 - slider.value} % true`);
    };
    slider.addEventListener('input', show);
    show(); // a browser that reloads the page may remember the last position
  }

  function prepareOverlay(button) {
    button.addEventListener('click', () => {
      const pressed = button.getAttribute('aria-pressed') !== 'true';
      button.setAttribute('aria-pressed', String(pressed));
      for (const gallery of every('.gallery')) gallery.classList.toggle('beside', !pressed);
    });
  }

  // Model card: copied where the browser lets a page do so, else selected for the reader to copy.

  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  function prepareCopy(button) {
    const label = button.textContent;
    const tell = (short, long) => {
      button.textContent = short;
      say(long);
      setTimeout(() => { button.textContent = label; }, 4000);
    };
    button.addEventListener('click', async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        tell('Copied', 'The text is copied.');
      } catch {
        select(source);
        tell('Selected', 'The text is selected: copy it with your keyboard.');
      }
    });
  }

  // Contents: mark the section that is being read.

  function prepareContents(nav) {
    const links = new Map(every('a', nav).map((link) => [link.hash.slice(1), link]));
    const visible = new Set();
    const watch = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) visible.add(target.id); else visible.delete(target.id);
      }
      const current = Array.from(links.keys()).find((id) => visible.has(id));
      if (current === undefined) return;
      for (const [id, link] of links) {
        if (id === current) link.setAttribute('aria-current', 'true'); else link.removeAttribute('aria-current');
      }
    }, { rootMargin: '-80px 0px -60% 0px' });
    for (const id of links.keys()) watch.observe(document.getElementById(id));
  }

  prepareTheme(document.getElementById('theme'));
  prepareContents(document.querySelector('.contents'));
  every('table.sortable').forEach(prepareTable);
  every('.split').forEach(prepareSlider);
  every('#overlay').forEach(prepareOverlay);
  every('[data-copy]').forEach(prepareCopy);
  for (const button of every('[data-download]')) {
    button.addEventListener('click', () => download(button.dataset.download));
  }
})();
