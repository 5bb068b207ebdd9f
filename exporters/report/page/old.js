// Written for browsers of 2012: it says what a newer one is needed for, and shows the verdict, where the page's script cannot run.
(function () {
  var isTold = false;

  function add(parent, kind, className, text) {
    var element = document.createElement(kind);
    element.className = className;
    element.appendChild(document.createTextNode(text));
    return parent.appendChild(element);
  }

  // The verdict as plain text, where the page has not shown it.
  function addVerdict(sections) {
    var verdict = JSON.parse(document.getElementById('facts').textContent).verdict;
    var list;
    var i;
    if (document.getElementById('why') !== null) return;
    add(sections, 'p', 'about', verdict.about);
    list = add(sections, 'ol', '', '');
    for (i = 0; i < verdict.findings.length; ++i) add(list, 'li', '', verdict.findings[i].what);
  }

  function tell(what) {
    var sections = document.getElementById('sections');
    if (isTold || sections === null) return;
    isTold = true;
    add(sections, 'p', 'notice', 'This page needs a browser of 2023 or later: this one ' + what +
        '. "proftrace report --why" says the verdict as text, and "proftrace report" has the tables.');
    addVerdict(sections);
  }

  // What a browser cannot read, or lacks, is an error of the whole script.
  window.addEventListener('error', function (event) {
    if (window.report === undefined) tell('cannot run its script (' + event.message + ')');
  });
  window.tellTooOld = tell;
}());
