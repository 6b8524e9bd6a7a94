// What static/charts.js uses of d3; assets/build.py makes one file of it.
import { scaleBand, scaleLinear, scaleTime } from "d3-scale";
import { area, curveLinear, curveStepAfter, line } from "d3-shape";

globalThis.d3 = { area, curveLinear, curveStepAfter, line, scaleBand, scaleLinear, scaleTime };
