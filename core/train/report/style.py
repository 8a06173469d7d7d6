"""The style sheet of the pages: light and dark, narrow and wide."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1d232b; --soft: #5b6673; --line: #dfe3e8; --paper: #fff; --card: #f6f7f9;
        --accent: #24618e; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b5599b; --c4: #b07d00; --c5: #3d8fc4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ed; --soft: #9aa6b2; --line: #333b45; --paper: #15191e; --card: #1e242b; --accent: #7db8e3;
          --c0: #56b4e9; --c1: #f0894a; --c2: #34c79b; --c3: #dd9cc6; --c4: #e6b84f; --c5: #9ad0f2; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 3rem 1.5rem 5rem; background: var(--paper); color: var(--ink);
       font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", sans-serif; }
h1 { margin: 0; font-size: 2.25rem; line-height: 1.2; letter-spacing: -0.02em; }
h2 { margin: 0 0 .75rem; font-size: 1.375rem; line-height: 1.3; letter-spacing: -0.01em; }
p { margin: .4rem 0 0; overflow-wrap: anywhere; }
.soft, dt, th, summary { color: var(--soft); }
.note { margin: -.25rem 0 1rem; max-width: 46rem; font-size: .9375rem; }
section { margin-top: 2.75rem; padding-top: 1.75rem; border-top: 1px solid var(--line); }
dl { display: flex; flex-wrap: wrap; gap: 1rem 2.25rem; margin: 1.5rem 0 0; }
dl div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
dt { font-size: .875rem; }
dd { margin: 0; font-size: 1.5rem; line-height: 1.3; font-weight: 600; font-variant-numeric: tabular-nums;
     color: var(--accent); }
figure { margin: 0; }
code { font: .8125rem/1.4 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: 1.25rem; }
.charts figure { padding: .75rem .75rem .5rem; border-radius: .5rem; background: var(--card); }
.charts.two { grid-template-columns: repeat(auto-fill, minmax(min(28rem, 100%), 1fr)); margin-top: 1rem; }
.lines { font-size: .875rem; } .lines td { vertical-align: middle; } .lines td:first-child { width: 25%; }
.charts .meter { background: var(--paper); }
.charts figcaption { font-size: .875rem; font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
.tick { font-size: 10.5px; fill: var(--soft); }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.line { fill: none; stroke-width: 1.75; stroke-linejoin: round; }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); } .line.c5 { stroke: var(--c5); }
.line.d1 { stroke-dasharray: 6 3; } .line.d2 { stroke-dasharray: 2 3; }
.hit { fill: transparent; stroke: transparent; stroke-width: 8; }
.dot.c0 { fill: var(--c0); } .dot.c1 { fill: var(--c1); } .dot.c2 { fill: var(--c2); }
.dot.c3 { fill: var(--c3); } .dot.c4 { fill: var(--c4); } .dot.c5 { fill: var(--c5); }
.area { fill: var(--c0); opacity: .55; } .band { fill: transparent; } .band:hover { fill: var(--c1); opacity: .3; }
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); }
i.c3 { background: var(--c3); } i.c4 { background: var(--c4); } i.c5 { background: var(--c5); }
.legend { display: flex; flex-wrap: wrap; gap: .125rem 1rem; font-size: .8125rem; color: var(--soft); }
.legend i { display: inline-block; width: .625rem; height: .625rem; margin-right: .375rem; border-radius: .125rem; }
.legend .d1 { clip-path: inset(0 0 50%); } .legend .d2 { clip-path: circle(35%); }
.stack { display: flex; height: 1.25rem; border-radius: .25rem; overflow: hidden; } .stack i { min-width: 1px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
         overflow-wrap: anywhere; }
thead th { font-size: .8125rem; font-weight: 400; vertical-align: bottom; overflow-wrap: normal; }
tbody th { width: 11rem; font-weight: 400; }
.r { text-align: right; white-space: nowrap; overflow-wrap: normal; }
.runs td:first-child { min-width: 8rem; }
.operations { margin: 1rem 0 1.25rem; min-width: 44rem; }
.operations td { vertical-align: middle; overflow-wrap: normal; }
.operations td:first-child { width: 18%; } .operations code { white-space: nowrap; }
.meter { display: block; height: .5rem; border-radius: .25rem; background: var(--card); }
.meter i { display: block; height: 100%; border-radius: .25rem; background: var(--c0); }
.heats { min-width: 40rem; } .heats td { vertical-align: middle; }
.heats { table-layout: fixed; } .heats th:first-child { width: 26%; } .heats th:nth-child(2n) { width: 30%; }
.heat { display: grid; grid-template-columns: 3.75rem 1fr; gap: .375rem; }
.heat span { display: flex; flex-direction: column; justify-content: space-between; font-size: .6875rem;
             line-height: 1.1; text-align: right; color: var(--soft); } .heat b { font-weight: 400; }
.shade { height: 3rem; image-rendering: pixelated; } .shade.parameters { background: var(--c0); }
.shade.gradients { background: var(--c1); }
.images { display: grid; grid-template-columns: repeat(auto-fill, minmax(4.5rem, 1fr)); gap: .5rem; max-width: 46rem;
          margin: 1rem 0; }
.images img { display: block; width: 100%; border-radius: .25rem; image-rendering: pixelated; }
.images figcaption { font-size: .8125rem; text-align: center; color: var(--soft); }
.flow { display: flex; flex-wrap: wrap; align-items: center; gap: .375rem; margin-bottom: 1rem; }
.flow code { padding: .25rem .5rem; border-radius: .375rem; background: var(--card); border: 1px solid var(--line); }
.arrow { color: var(--soft); }
.graph { width: 56rem; max-width: none; overflow: visible; }
.edge { fill: none; stroke: var(--soft); stroke-width: 1.25; opacity: .7; }
.node { fill: var(--paper); stroke: var(--c0); stroke-width: 2; } .node.held { fill: var(--c0); }
.label { font-size: 13px; fill: var(--ink); } .label .soft { fill: var(--soft); } .strong { font-weight: 600; }
.landscape { max-width: 30rem; } .land { width: 100%; height: 100%; background: var(--c0); }
.contour { fill: none; stroke: var(--ink); stroke-width: .8; opacity: .55; }
.here { fill: var(--c1); stroke: var(--paper); stroke-width: 1.5; }
details { margin-top: 1rem; } summary { cursor: pointer; font-size: .9375rem; }
@media (max-width: 36rem) { body { padding: 1.5rem 1rem 3rem; } h1 { font-size: 1.75rem; } dl { gap: .75rem 1.5rem; }
  dd { font-size: 1.25rem; } tbody th { width: 7rem; } }
@media print { section { break-inside: avoid; } }
"""
