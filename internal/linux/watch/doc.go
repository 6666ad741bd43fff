// Package watch notices what changes in a network namespace: links, addresses, routes, rules, neighbours, the rules of
// filters, security associations, programs, variables, sockets. Between two audits nothing of it runs: sockets of the
// kernel collect what comes and goes, and an audit reads them.
package watch
