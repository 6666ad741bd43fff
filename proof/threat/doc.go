// Package threat names the attacks that containers can make on each other and on their host, and holds what the parts
// of a stack claim about them. It is data: package attack makes the attacks, and parts import this package alone.
package threat
