-- The first form of a store. {schema} is the store's schema, quoted.

CREATE TABLE {schema}.entries (
	key      bytea  NOT NULL PRIMARY KEY, -- bytes sort as kvstore has them
	value    bytea  NOT NULL,
	revision bigint NOT NULL -- 0: a place that apply holds, never committed
) WITH (
	-- Heads are written again and again: room in their page keeps the index
	-- out of it. Dead rows are cleared away while there are few.
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_insert_scale_factor = 0.05,
	autovacuum_analyze_scale_factor = 0.05
);

-- A cache of more than 1 would hand a session of the server a block of numbers,
-- which it uses up after those of others.
CREATE SEQUENCE {schema}.revisions AS bigint CACHE 1;

-- The planner's guesses are switched off where they can be wrong: a plan that was
-- made for an empty table would read all of a full one. What is left of plans is
-- the same for all arguments, so they are made once: for a large table the planner
-- would else make them anew for each call, which costs more than the call.

CREATE FUNCTION {schema}.get(wanted bytea) RETURNS TABLE (v bytea, r bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY SELECT e.value, e.revision FROM {schema}.entries e WHERE e.key = wanted;
END
$$;

-- scan returns the entries from low up to, and without, high: most of them, and
-- as many as have so many bytes together, but one at least. The first that has
-- no room comes without its value.
CREATE FUNCTION {schema}.scan(low bytea, high bytea, most int, room bigint)
RETURNS TABLE (k bytea, v bytea, size int, r bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT s.key, CASE WHEN s.upto <= room OR s.n = 1 THEN s.value END, s.bytes, s.revision
	FROM (
		SELECT e.key, e.value, e.revision, octet_length(e.value) AS bytes,
			octet_length(e.key) + octet_length(e.value) AS own,
			sum(octet_length(e.key) + octet_length(e.value)) OVER w AS upto,
			row_number() OVER w AS n
		FROM {schema}.entries e
		WHERE e.key >= low AND e.key < high
		WINDOW w AS (ORDER BY e.key ROWS UNBOUNDED PRECEDING)
		ORDER BY e.key LIMIT most
	) s
	WHERE s.upto - s.own <= room
	ORDER BY s.key;
END
$$;

-- apply judges batches, of which no two have a key in common, and carries out
-- those whose preconditions hold. It returns a number for each: its revision; 0
-- if it puts nothing; -1, a precondition did not hold; -2, another transaction
-- holds one of its keys, and it was not to wait. The arrays *_of name the batch
-- of each element, from 1.
--
-- There is one order, for all writers. First every key of the batches is held
-- until the transaction ends, in the order of keys: a row by its lock, a key
-- without one by a row that is put there for the time. Then preconditions are
-- looked at. Then revisions are taken: one that was taken before the locks could
-- be stored over a greater one.
CREATE FUNCTION {schema}.apply(
	batches int, patient boolean, lock_ms int,
	pre_of int[], pre_keys bytea[], pre_at bigint[],
	put_of int[], put_keys bytea[], put_values bytea[],
	del_of int[], del_keys bytea[]
) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	waits   text := current_setting('lock_timeout');
	all_of  int[] := pre_of || put_of || del_of;
	named   bytea[] := pre_keys || put_keys || del_keys;
	keys    bytea[] := ARRAY(SELECT DISTINCT k FROM unnest(named) AS k ORDER BY k);
	held    bytea[];
	taken   bytea[];
	fresh   bytea[];
	refused int[];
	locked  int[] := '{}';
	answers bigint[];
BEGIN
	-- Until the transaction ends: what is acknowledged is on the disk.
	IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	PERFORM set_config('lock_timeout', lock_ms::text, true);

	IF patient THEN
		WITH placed AS (
			INSERT INTO {schema}.entries AS e (key, value, revision)
			SELECT k, '', 0 FROM unnest(keys) AS k
			-- The row is locked, and left as it is.
			ON CONFLICT (key) DO UPDATE SET revision = e.revision WHERE false
			RETURNING e.key
		)
		SELECT array_agg(key) INTO fresh FROM placed;
	ELSE
		held := ARRAY(
			SELECT e.key FROM {schema}.entries e WHERE e.key = ANY (keys)
			ORDER BY e.key FOR UPDATE SKIP LOCKED
		);
		IF cardinality(held) < cardinality(keys) THEN
			-- Of batches whose rows others hold, no key is put there: that could
			-- wait.
			taken := ARRAY(
				SELECT e.key FROM {schema}.entries e WHERE e.key = ANY (keys)
				EXCEPT SELECT unnest(held)
			);
			locked := ARRAY(
				SELECT a.of FROM unnest(all_of, named) AS a (of, k) WHERE a.k = ANY (taken)
			);
			WITH placed AS (
				INSERT INTO {schema}.entries AS e (key, value, revision)
				SELECT k, '', 0
				FROM (
					SELECT a.k FROM unnest(all_of, named) AS a (of, k) WHERE a.of <> ALL (locked)
					EXCEPT SELECT unnest(held) ORDER BY 1
				) AS others (k)
				ON CONFLICT (key) DO NOTHING
				RETURNING e.key
			)
			SELECT array_agg(key) INTO fresh FROM placed;
			-- What others have made since.
			taken := ARRAY(
				SELECT unnest(keys) EXCEPT SELECT unnest(held) EXCEPT SELECT unnest(fresh)
			);
			locked := locked || ARRAY(
				SELECT a.of FROM unnest(all_of, named) AS a (of, k) WHERE a.k = ANY (taken)
			);
		END IF;
	END IF;

	-- Above read committed, what the transaction sees was settled before it held
	-- the keys. One that another has deleted since would be there still, beside
	-- the place that was put for it.
	IF fresh IS NOT NULL AND current_setting('transaction_isolation') <> 'read committed'
		AND EXISTS (
		SELECT FROM {schema}.entries e WHERE e.key = ANY (fresh) AND e.revision <> 0
	) THEN
		RAISE EXCEPTION 'a key was deleted since the transaction began'
			USING ERRCODE = 'serialization_failure';
	END IF;

	refused := ARRAY(
		SELECT p.of FROM unnest(pre_of, pre_keys, pre_at) AS p (of, k, at)
		LEFT JOIN {schema}.entries e ON e.key = p.k
		WHERE coalesce(e.revision, 0) <> p.at
	);
	answers := ARRAY(
		SELECT CASE
			WHEN i = ANY (locked) THEN -2
			WHEN i = ANY (refused) THEN -1
			WHEN i = ANY (put_of) THEN nextval('{schema}.revisions')
			ELSE 0 END
		FROM generate_series(1, batches) AS i ORDER BY i
	);

	UPDATE {schema}.entries e SET value = p.v, revision = answers[p.of]
	FROM unnest(put_of, put_keys, put_values) AS p (of, k, v)
	WHERE e.key = p.k AND answers[p.of] > 0;
	IF cardinality(del_keys) > 0 THEN
		DELETE FROM {schema}.entries e USING unnest(del_of, del_keys) AS d (of, k)
		WHERE e.key = d.k AND answers[d.of] >= 0;
	END IF;
	-- Places that no value has come to.
	IF cardinality(refused) + cardinality(locked) > 0 OR NOT fresh <@ put_keys THEN
		DELETE FROM {schema}.entries e WHERE e.key = ANY (fresh) AND e.revision = 0;
	END IF;

	PERFORM set_config('lock_timeout', waits, true);
	RETURN answers;
END
$$;
