package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

const defaultSchema = "fermata"

// maxSchema is the length of PostgreSQL's names. It cuts off what is longer
// without a word, so two schemas could be one.
const maxSchema = 63

func checkSchema(name string) error {
	switch {
	case len(name) > maxSchema:
		return fmt.Errorf("kvstore/postgres: the schema's name %.70q has %d bytes; "+
			"PostgreSQL takes %d", name, len(name), maxSchema)
	case strings.ContainsAny(name, "\x00"):
		return fmt.Errorf("kvstore/postgres: the schema's name %q has a zero byte", name)
	case strings.Contains(name, "$$"):
		// It stands in the bodies of functions, which end there.
		return fmt.Errorf("kvstore/postgres: the schema's name %q has $$", name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("kvstore/postgres: the schema's name %q: PostgreSQL keeps names with "+
			"pg_ for itself", name)
	}
	return nil
}

// within returns SQL with the schema's name put in, and further names, which
// come in pairs of placeholder and name.
func within(schema, sql string, names ...string) string {
	var all []string
	for names = append(names, "schema", schema); len(names) > 0; names = names[2:] {
		placeholder, quoted := "{"+names[0]+"}", pgx.Identifier{names[1]}.Sanitize()
		// In a literal, which nextval takes, an apostrophe is doubled.
		literal := "'" + strings.ReplaceAll(quoted, "'", "''")
		all = append(all, "'"+placeholder, literal, placeholder, quoted)
	}
	return strings.NewReplacer(all...).Replace(sql)
}

// statements are what a store sends.
type statements struct{ get, scan, apply string }

func statementsOf(schema string) statements {
	return statements{
		// One row in any case: whether the server is a standby comes with it, and its
		// time. Behind a pooler each statement may be another server's.
		get: within(schema, "SELECT pg_catalog.pg_is_in_recovery(), clock_timestamp(), e.v, e.r "+
			"FROM (SELECT 1) AS one LEFT JOIN {schema}.get($1::bytea) AS e ON true"),
		scan: within(schema, "SELECT pg_catalog.pg_is_in_recovery(), e.k, e.v, e.size, e.r "+
			"FROM (SELECT 1) AS one LEFT JOIN {schema}.scan("+
			"$1::bytea, $2::bytea, $3::int, $4::bigint) AS e ON true"),
		apply: within(schema, "SELECT {schema}.apply($1::int, $2::boolean, $3::int, "+
			"$4::int[], $5::bytea[], $6::bigint[], $7::int[], $8::bytea[], $9::bytea[], "+
			"$10::int[], $11::bytea[]), clock_timestamp()"),
	}
}
