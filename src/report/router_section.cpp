#include "report/router_history.h"

namespace trireme::report {

// Uses the page's own functions and data: R, $, el, svg, shape, table, css. It adds its section before the text report.
const char* const router_section = R"page(<script>
"use strict";
(function(){if(!R||!R.router)return;const Q=R.router,layers=Q.max_over_mean[0].length,last=Q.steps.length-1;
  const section=document.createElement("section");section.id="router";document.querySelector("main").insertBefore(section,$("text").closest("details").previousElementSibling);
  el("h2","Load of experts",section);
  el("div","Rows of an expert over the mean of its layer: 1 is even, 0 is an expert without a row.",section,"soft");
  // Below the mean blue, above it orange, as far as the highest value that is shown.
  const all=Q.rows_over_mean.flat(),top=Math.max(2,...all);
  const tone=v=>v<=1?"hsl(212 "+Math.round(62*(1-v))+"% "+Math.round(94-44*(1-v))+"%)":"hsl(26 "+Math.round(85*Math.min(1,(v-1)/(top-1)))+"% "+Math.round(94-52*(v-1)/(top-1))+"%)";
  if(all.length){const experts=Q.rows_over_mean[0].length,w=Math.max(3,Math.min(34,1050/experts)),h=Math.max(8,Math.min(18,700/layers));
    const s=svg(section,70+w*experts,layers*h+44);
    Q.rows_over_mean.forEach((row,i)=>{if(layers<=40||i%5===0)shape(s,"text",{x:0,y:i*h+h-4},"layer "+(Q.first_layer+i));
      row.forEach((v,e)=>{const r=shape(s,"rect",{x:60+e*w,y:i*h,width:Math.max(1,w-1),height:h-1,fill:tone(v)});
        shape(r,"title",{},"layer "+(Q.first_layer+i)+", expert "+e+": "+v.toFixed(2)+" times the mean")})});
    const step=Math.ceil(experts/16);for(let e=0;e<experts;e+=step)shape(s,"text",{x:60+e*w,y:layers*h+12},e);
    shape(s,"text",{x:60,y:layers*h+30},"expert (across) by layer (down), step "+Q.rows_step);
    const key=svg(section,420,34);for(let i=0;i<=60;i++)shape(key,"rect",{x:60+i*4,y:2,width:4,height:10,fill:tone(top*i/60)});
    [[0,"0"],[1,"1 (mean)"],[top,top.toFixed(1)]].forEach(([v,t])=>shape(key,"text",{x:58+240*v/top,y:26},t))}
  const w=1100,h=240,s=svg(section,w,h+16),y1=Math.max(2,...Q.max_over_mean.flat()),x0=Q.steps[0],x1=Math.max(Q.steps[last],x0+1);
  const px=a=>50+(a-x0)/(x1-x0)*(w-70),py=a=>h-24-a/y1*(h-40);
  for(let i=0;i<=4;i++){const a=y1*i/4;shape(s,"line",{x1:50,x2:w-20,y1:py(a),y2:py(a),stroke:css("--line")});shape(s,"text",{x:14,y:py(a)+4},a.toFixed(1))}
  for(let i=0;i<=6;i++){const a=x0+(x1-x0)*i/6;shape(s,"text",{x:px(a)-8,y:h-6},Math.round(a))}
  shape(s,"text",{x:50,y:h+10},"busiest expert over the mean, by step; a line a layer");
  const hue=i=>"hsl("+Math.round(360*i/Math.max(layers,1))+" 60% 48%)";
  for(let i=0;i<layers;i++){const p=shape(s,"path",{d:Q.steps.map((t,k)=>(k?"L":"M")+px(t).toFixed(1)+" "+py(Q.max_over_mean[k][i]).toFixed(1)).join(""),
    fill:"none",stroke:hue(i),"stroke-width":1.3});shape(p,"title",{},"layer "+(Q.first_layer+i))}
  if(layers<=24){const l=el("div",null,section,"legend");for(let i=0;i<layers;i++){const t=el("span",null,l),c=el("i",null,t);c.style.background=hue(i);t.append("layer "+(Q.first_layer+i))}}
  const t=el("div",null,section);table(t,["layer","busiest over mean","idlest over mean","variation"],Q.cv[last].map((c,i)=>[Q.first_layer+i,
    Q.max_over_mean[last][i].toFixed(2),Q.min_over_mean[last][i].toFixed(2),c.toFixed(2)]))})();
</script>
)page";

}  // namespace trireme::report
