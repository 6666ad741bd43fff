// Package markdown writes a run, or the comparison of two, as GitHub Flavored Markdown (github.github.com/gfm): for a
// README, an issue or a comment on a pull request.
//
// The words come from package report; this one knows the markup of Markdown.
package markdown
