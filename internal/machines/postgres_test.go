package machines

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fermata-ai/fermata/internal/fleet"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// postgresEngine is a PostgreSQL that may be stopped and killed.
type postgresEngine struct {
	*ways
	server *postgrestest.Server
	store  *postgres.Store
}

func newPostgres(t *testing.T, late time.Duration) *postgresEngine {
	t.Helper()
	server, err := postgrestest.Start(nil)
	postgrestest.Need(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	must(t, migrate(server.URL()))
	store, err := postgres.Open(t.Context(), server.URL(), nil)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	u, err := url.Parse(server.URL())
	must(t, err)
	return &postgresEngine{newWays(t, late, u.Host), server, store}
}

func migrate(url string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return postgres.Migrate(ctx, conn, nil)
}

func (e *postgresEngine) URL(process string) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&pool_max_conns=8",
		e.of(process)[0])
}

func (e *postgresEngine) Store() kvstore.Store { return e.store }

func (e *postgresEngine) Deeds() []fleet.Deed {
	away := func(end func() error) func(*testing.T, string, time.Duration) {
		return func(t *testing.T, _ string, long time.Duration) {
			if err := end(); err != nil {
				t.Errorf("PostgreSQL: %v", err)
			}
			time.Sleep(long / 2)
			if err := e.server.Restart(); err != nil {
				t.Errorf("PostgreSQL: %v", err)
			}
		}
	}
	return append(e.deeds(),
		fleet.Deed{What: "stops and starts of PostgreSQL", Often: 1, Everywhere: true,
			Do: away(e.server.Stop)},
		fleet.Deed{What: "immediate ends of PostgreSQL", Often: 1, Everywhere: true,
			Do: away(e.server.Kill)})
}

// ahead is how far PostgreSQL's clock is ahead of those of all processes, which is
// more than calls wait.
const ahead = 15 * time.Minute

// Four processes on PostgreSQL, by its clock, under faults of all kinds: nothing
// is lost, nothing is done twice, and no session is stuck.
func TestPostgreSQLUnderFaults(t *testing.T) {
	fleet.Run(t, fleet.Config{Engine: newPostgres(t, 5*time.Millisecond),
		Lease: 1500 * time.Millisecond, Rounds: testlength.Machines.Rounds(.6),
		EngineClock: true, Ahead: ahead, Processes: roles, Patience: time.Minute})
}

// Clocks that are minutes apart take no live drive's session away, and end
// nothing early.
func TestPostgreSQLWithWrongClocks(t *testing.T) {
	long(t)
	fleet.Run(t, fleet.Config{Engine: newPostgres(t, 5*time.Millisecond), Lease: 3 * time.Second,
		Rounds: testlength.Machines.Rounds(.2), Calm: true, Processes: roles,
		Patience: time.Minute})
}

// While processes are replaced by those of a later version, one by one, and some
// taken back, PostgreSQL's sessions go on.
func TestPostgreSQLOfTwoVersions(t *testing.T) {
	long(t)
	fleet.Run(t, fleet.Config{Engine: newPostgres(t, 0), Lease: 1500 * time.Millisecond,
		Rounds: testlength.Machines.Rounds(.2), EngineClock: true, Ahead: ahead, Processes: roles,
		Versions: true, Patience: time.Minute})
}
