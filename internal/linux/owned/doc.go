// Package owned opens directories and files that belong to this user alone. It refuses files that another user could
// have made or could replace, and does not follow symbolic links of other users.
package owned
