// Package markdown writes a run, or the comparison of two, as GitHub Flavored Markdown (github.github.com/gfm): for a
// README, an issue or a comment on a change.
//
// What is said comes from package report; this one knows what Markdown takes for markup.
package markdown
