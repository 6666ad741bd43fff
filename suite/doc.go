// Package suite holds the experiments that reproduce a paper, with its published figures and its claims as data.
//
// A suite is a folder here. experiment.yaml has the cells to measure, and figures.csv the published figures. suite.yaml
// says where each figure is found in a run, and has the claims of the paper. A claim is a formula over figures: a ratio
// of products, and the bounds between which the paper says it lies. It is evaluated first on the paper's own figures,
// and then on the measured values, where it has an interval. A new paper needs a folder, and no code.
package suite
