// Package suite holds the experiments that reproduce a paper, with its published figures and its claims as data.
//
// A suite is a folder here: experiment.yaml is what to measure, figures.csv what was published, suite.yaml how the one
// is found in the other and what the paper claims. A claim is a formula over figures, a ratio of products with the
// bounds between which it is said to lie. It is evaluated first on the paper's own figures and then on what was
// measured here, where it has an interval. Another paper is another folder, and no code.
package suite
