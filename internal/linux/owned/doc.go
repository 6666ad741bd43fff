// Package owned opens directories and files that belong to this user alone: where somebody else could have put them, or
// could put others in their place, it refuses, and it follows no symbolic link of anybody else's.
package owned
