#include "report/html_page.h"

namespace trireme::report {

const char* const page_template = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{--bg:#fff;--fg:#1c2733;--soft:#5d6b7a;--line:#dfe4ea;--card:#f6f8fa;--bar:#3d6fb4;--bar2:#c8762a}
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e4e9ee;--soft:#93a1b0;--line:#2c343d;--card:#1c2229;--bar:#6ea0e6;--bar2:#e29a52}}
body{margin:0;background:var(--bg);color:var(--fg);font:14px/1.45 system-ui,sans-serif}
main{max-width:1280px;margin:0 auto;padding:16px 20px 60px}
h1{font-size:22px;margin:8px 0 14px}h2{font-size:16px;margin:28px 0 8px}
.tiles{display:flex;flex-wrap:wrap;gap:10px}.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 14px;min-width:150px}
.tile b{display:block;font-size:19px}.tile span{color:var(--soft);font-size:12px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:3px 12px;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;padding-left:0}th{color:var(--soft);font-weight:500}
canvas{width:100%;display:block;border:1px solid var(--line);border-radius:6px;cursor:grab}
#tip{position:fixed;display:none;pointer-events:none;background:var(--fg);color:var(--bg);padding:5px 9px;border-radius:5px;font-size:12px;z-index:9;white-space:pre}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;margin:6px 0;font-size:12px;color:var(--soft)}.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}
pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:12px;overflow:auto;font-size:12px}
.soft{color:var(--soft)}svg{display:block;max-width:100%}svg text{fill:var(--soft);font-size:11px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0 0 14px}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.two{display:flex;flex-wrap:wrap;gap:32px}
</style></head><body><main>
<h1 id="title"></h1><dl id="facts"></dl><div class="tiles" id="tiles"></div>
<h2>Timeline of a step</h2>
<div class="soft">Each rank's lanes, what its compute lane waits for when it is idle, and the phases of its dispatches and combines; predicted above <span class="m"></span>: pale is predicted, full colour is <span class="m"></span>. Across: time from the step's start; down: ranks and their lanes. Wheel zooms, drag moves, double click shows all.</div>
<div class="legend" id="legend"></div><canvas id="timeline"></canvas>
<h2>Memory</h2><div class="soft">Bytes of each rank at its highest, across: predicted above, by what holds it; <span class="m"></span> below.</div><div id="memory"></div>
<div class="two"><div><h2 id="kinds_title"></h2><div id="kinds"></div></div><div><h2 id="segments_title"></h2><div id="segments"></div></div></div>
<h2 id="phases_title"></h2><div id="phases"></div>
<h2 id="ranks_title"></h2><div id="ranks"></div>
<h2 id="exposure_title"></h2><div class="soft" id="exposure_words"></div><div id="exposure"></div>
<h2 id="loss_title"></h2><div id="loss"></div>
<h2>Text report</h2><details><summary>show</summary><pre id="text"></pre></details>
</main><div id="tip"></div>
<script type="application/json" id="data">@DATA@</script>
<script>
"use strict";
const D=JSON.parse(document.getElementById("data").textContent),$=id=>document.getElementById(id);
const css=n=>getComputedStyle(document.documentElement).getPropertyValue(n).trim();
const time=us=>us===0?"0":us<1000?us.toFixed(0)+" \u00b5s":us<1e6?(us/1e3).toFixed(us<1e5?2:1)+" ms":(us/1e6).toFixed(2)+" s";
const seconds=s=>s==null?"-":time(s*1e6);
const bytes=b=>b==null?"-":b<1024?b.toFixed(0)+" B":b<1048576?(b/1024).toFixed(1)+" KiB":b<1073741824?(b/1048576).toFixed(1)+" MiB":(b/1073741824).toFixed(2)+" GiB";
const percent=e=>e==null?"-":(e>0?"+":"")+(100*e).toFixed(1)+" %";
const number=x=>x==null?"-":x>=1000?Math.round(x).toLocaleString("en"):x.toFixed(1);
function el(tag,text,parent,cls){const e=document.createElement(tag);if(text!=null)e.textContent=text;if(cls)e.className=cls;if(parent)parent.append(e);return e}
function table(parent,heading,rows){const t=el("table",null,parent),h=el("tr",null,t);heading.forEach(x=>el("th",x,h));
  rows.forEach(r=>{const tr=el("tr",null,t);r.forEach(x=>el("td",x,tr))})}
$("title").textContent=D.title;D.facts.forEach(([what,value])=>{el("dt",what,$("facts"));el("dd",value,$("facts"))});$("text").textContent=D.text;
const R=D.report,M=D.measured_as;document.querySelectorAll(".m").forEach(e=>{e.textContent=M});
function tile(name,pair,show){const t=el("div",null,$("tiles"),"tile");el("span",name,t);el("b",show(pair.measured!=null?pair.measured:pair.predicted),t);
  el("span",pair.measured!=null?"predicted "+show(pair.predicted)+" ("+percent(pair.error)+")":"predicted",t)}
if(R){tile(M==="measured"?"step":"step, "+M,R.step_s,seconds);tile("tokens/s",R.tokens_per_s,number);tile("peak memory of a rank",R.peak_memory_bytes,bytes)}
else{tile("step",{predicted:D.predicted_step_s},seconds);tile("peak memory of a rank",{predicted:Math.max(0,...D.ranks.map(r=>r.predicted_peak))},bytes)}

const colours=D.colours;
D.kinds.forEach((k,i)=>{const s=el("span",null,$("legend"));const c=el("i",null,s);c.style.background=colours[i];s.append(k)});

// Rows of the timeline: for each rank and lane in use, predicted and measured.
const rows=[];let last=0;
D.ranks.forEach(r=>{D.lanes.forEach((lane,l)=>{
  [["predicted",r.predicted],[M,r.measured]].forEach(([which,spans])=>{if(!spans)return;
    const own=spans.filter(s=>s[0]===l);if(!own.length)return;own.forEach(s=>{last=Math.max(last,s[1]+s[2])});
    rows.push({rank:r.rank,stage:r.stage,lane,which,spans:own,first:!rows.length||rows[rows.length-1].rank!==r.rank})})})});
const canvas=$("timeline"),g=canvas.getContext("2d"),left=190,rowH=15;let from=0,to=last||1,W=0;
const heightOf=()=>rows.reduce((y,r)=>y+rowH+(r.first?8:0),0)+26;
function x(us){return left+(us-from)/(to-from)*(W-left-8)}
function draw(){const ratio=devicePixelRatio||1;W=canvas.clientWidth;const H=heightOf();canvas.style.height=H+"px";canvas.width=W*ratio;canvas.height=H*ratio;
  g.setTransform(ratio,0,0,ratio,0,0);g.clearRect(0,0,W,H);g.font="11px system-ui,sans-serif";let y=0;
  rows.forEach(r=>{if(r.first){y+=8;g.fillStyle=css("--line");g.fillRect(0,y-4,W,1)}r.y=y;
    g.fillStyle=r.which==="predicted"?css("--soft"):css("--fg");
    g.fillText((r.which==="predicted"?"rank "+r.rank+" "+r.lane:"  "+M),6,y+11);
    g.save();g.beginPath();g.rect(left,y,W-left-8,rowH);g.clip();g.globalAlpha=r.which==="predicted"?0.62:1;
    r.spans.forEach(s=>{const a=x(s[1]),b=x(s[1]+s[2]);if(b<left||a>W)return;g.fillStyle=colours[s[3]];g.fillRect(a,y+1,Math.max(0.6,b-a-(b-a>3?0.6:0)),rowH-2)});
    g.restore();y+=rowH});
  g.fillStyle=css("--soft");const step=Math.pow(10,Math.floor(Math.log10((to-from)/4)));const tick=(to-from)/step>20?step*5:(to-from)/step>8?step*2:step;
  for(let t=Math.ceil(from/tick)*tick;t<=to;t+=tick){const p=x(t);g.fillRect(p,y+4,1,4);g.fillText(time(t),Math.min(p+3,W-60),y+17)}}
const tip=$("tip");
canvas.onmousemove=e=>{const b=canvas.getBoundingClientRect(),px=e.clientX-b.left,py=e.clientY-b.top;
  if(e.buttons===1&&drag){const d=(drag.px-px)/(W-left-8)*(drag.to-drag.from);from=drag.from+d;to=drag.to+d;draw();return}
  const r=rows.find(r=>py>=r.y&&py<r.y+rowH);const us=from+(px-left)/(W-left-8)*(to-from);
  const slack=1.5*(to-from)/(W-left);
  const s=r&&(r.spans.find(s=>us>=s[1]&&us<=s[1]+s[2])||r.spans.find(s=>us>=s[1]-slack&&us<=s[1]+s[2]+slack));
  if(!s){tip.style.display="none";return}
  tip.textContent=D.names[s[4]]+"\n"+r.which+", rank "+r.rank+" (stage "+r.stage+"), "+r.lane+"\n"+time(s[1])+" + "+time(s[2]);
  tip.style.display="block";tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+"px";tip.style.top=(e.clientY+16)+"px"};
canvas.onmouseleave=()=>tip.style.display="none";let drag=null;
canvas.onmousedown=e=>{const b=canvas.getBoundingClientRect();drag={px:e.clientX-b.left,from,to}};
canvas.onwheel=e=>{e.preventDefault();const b=canvas.getBoundingClientRect(),at=from+(e.clientX-b.left-left)/(W-left-8)*(to-from),k=Math.exp(e.deltaY*0.0015);
  from=Math.max(0,at-(at-from)*k);to=Math.min(last*1.05,at+(to-at)*k);draw()};
canvas.ondblclick=()=>{from=0;to=last;draw()};
addEventListener("resize",draw);matchMedia("(prefers-color-scheme:dark)").addEventListener("change",draw);draw();

const NS="http://www.w3.org/2000/svg";
function svg(parent,w,h){const s=document.createElementNS(NS,"svg");s.setAttribute("viewBox","0 0 "+w+" "+h);s.setAttribute("width",w);s.setAttribute("height",h);parent.append(s);return s}
function shape(s,tag,attributes,text){const e=document.createElementNS(NS,tag);for(const k in attributes)e.setAttribute(k,attributes[k]);if(text!=null)e.textContent=text;s.append(e);return e}
(function(){const most=Math.max(1,...D.ranks.flatMap(r=>[r.predicted_peak,r.measured_peak||0])),h=34,s=svg($("memory"),1200,D.ranks.length*h+8);
  // A part has one colour on all stages.
  const whats=[...new Set(D.memory.flatMap(m=>m.parts.map(p=>p[0])))],tone=what=>D.palette[whats.indexOf(what)%D.palette.length];
  D.ranks.forEach((r,i)=>{const y=i*h,k=850/most;shape(s,"text",{x:0,y:y+18},"rank "+r.rank+" (stage "+r.stage+")");let at=130;
    D.memory[r.stage].parts.forEach(([what,b])=>{const e=shape(s,"rect",{x:at,y:y+4,width:Math.max(0,b*k),height:11,fill:tone(what)});shape(e,"title",{},"predicted "+what+": "+bytes(b));at+=b*k});
    shape(s,"text",{x:at+6,y:y+14},"predicted "+bytes(r.predicted_peak));
    if(r.measured_peak!=null){const e=shape(s,"rect",{x:130,y:y+17,width:r.measured_peak*k,height:11,fill:css("--fg")});shape(e,"title",{},M);
      shape(s,"text",{x:130+r.measured_peak*k+6,y:y+27},M+" "+bytes(r.measured_peak))}});
  const l=el("div",null,$("memory"),"legend");whats.forEach(what=>{const t=el("span",null,l);const c=el("i",null,t);c.style.background=tone(what);t.append(what)})})();

if(R){$("kinds_title").textContent="By action kind";$("segments_title").textContent="Compute by segment";$("ranks_title").textContent="By rank";
  const cells=k=>[k.kind,k.count,seconds(k.seconds.predicted),seconds(k.seconds.measured),percent(k.seconds.error)];
  table($("kinds"),["kind","actions","predicted",M,"error"],R.kinds.map(cells));
  table($("segments"),["segment","actions","predicted",M,"error"],R.segments.map(cells));
  if(R.phases.length){$("phases_title").textContent="Dispatch and combine by phase";
    table($("phases"),["exchange","of","phase","times","predicted",M,"error"],R.phases.map(k=>[k.kind,k.part,k.phase,k.count,
      seconds(k.seconds.predicted),seconds(k.seconds.measured),percent(k.seconds.error)]))}
  table($("ranks"),["rank","stage","compute",M,"error","idle",M,"peak",M,"error"],R.ranks.map(k=>[k.rank,k.stage,
    seconds(k.compute_s.predicted),seconds(k.compute_s.measured),percent(k.compute_s.error),seconds(k.idle_s.predicted),seconds(k.idle_s.measured),
    bytes(k.peak_memory_bytes.predicted),bytes(k.peak_memory_bytes.measured),percent(k.peak_memory_bytes.error)]))}
if(R){$("exposure_title").textContent="Bubble and exposed messages by phase";
  $("exposure_words").textContent="All ranks, a step. Exposed is a message while its rank's compute lane does nothing; the bubble is idle time without a message inside the stage. A bubble's share is of the phase, a message's of its own time.";
  const N="measured",part=(a,b)=>a==null||!b?"-":(100*a/b).toFixed(1)+" %",rows=[];
  R.exposure.phases.forEach(p=>{rows.push([p.phase.replace("_","-"),"bubble",seconds(p.bubble_s.predicted),part(p.bubble_s.predicted,p.length_s.predicted),seconds(p.bubble_s[N]),part(p.bubble_s[N],p.length_s[N])]);
    p.messages.forEach(m=>rows.push(["",m.kind,seconds(m.exposed_s.predicted),part(m.exposed_s.predicted,m.seconds.predicted),seconds(m.exposed_s[N]),part(m.exposed_s[N],m.seconds[N])]))});
  table($("exposure"),["phase","waits for","predicted","share",M,"share"],rows)}
(function(){if(!R||!R.loss.training.length)return;$("loss_title").textContent="Loss by step";const w=1100,h=260,s=svg($("loss"),w,h),t=R.loss.training,v=R.loss.validation;
  const xs=t.concat(v).map(p=>p[0]),ys=t.concat(v).map(p=>p[1]).concat(R.loss.bigram!=null?[R.loss.bigram]:[]);
  const x0=Math.min(...xs),x1=Math.max(...xs,x0+1),y0=Math.min(...ys),y1=Math.max(...ys,y0+1e-9);
  const px=a=>50+(a-x0)/(x1-x0)*(w-70),py=a=>h-34-(a-y0)/(y1-y0)*(h-54);
  for(let i=0;i<=4;i++){const a=y0+(y1-y0)*i/4;shape(s,"line",{x1:50,x2:w-20,y1:py(a),y2:py(a),stroke:css("--line")});shape(s,"text",{x:8,y:py(a)+4},a.toFixed(2))}
  for(let i=0;i<=6;i++){const a=x0+(x1-x0)*i/6;shape(s,"text",{x:px(a)-8,y:h-16},Math.round(a))}
  shape(s,"text",{x:w/2,y:h-2},"step");shape(s,"text",{x:8,y:11},"loss (nats a token)");
  const path=p=>p.map((q,i)=>(i?"L":"M")+px(q[0]).toFixed(1)+" "+py(q[1]).toFixed(1)).join("");
  shape(s,"path",{d:path(t),fill:"none",stroke:css("--bar"),"stroke-width":1.4});
  if(v.length){shape(s,"path",{d:path(v),fill:"none",stroke:css("--bar2"),"stroke-width":2});v.forEach(q=>shape(s,"circle",{cx:px(q[0]),cy:py(q[1]),r:3,fill:css("--bar2")}))}
  if(R.loss.bigram!=null){shape(s,"line",{x1:50,x2:w-20,y1:py(R.loss.bigram),y2:py(R.loss.bigram),stroke:css("--soft"),"stroke-dasharray":"5 4"});shape(s,"text",{x:w-150,y:py(R.loss.bigram)-5},"bigram "+R.loss.bigram.toFixed(3))}
  const l=el("div",null,$("loss"),"legend");[["training","--bar"],["validation","--bar2"]].forEach(([n,c])=>{const q=el("span",null,l);const i=el("i",null,q);i.style.background=css(c);q.append(n)})})();
</script></body></html>
)page";

}  // namespace trireme::report
