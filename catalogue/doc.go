// Package catalogue is the one explicit list of all parts, and the only importer of them. Help, schema and
// documentation derive from it.
package catalogue
