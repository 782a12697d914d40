-- The index over raw run folders. Rebuilt whole by every ingest; layout 4.

create table layout (version integer not null);
insert into layout values (4);
comment on table layout is 'One row: the version of this layout.';

create table experiments (
    run_id            varchar primary key,
    name              varchar not null,
    question          varchar not null,
    stage             varchar not null,
    engine            varchar not null,
    engine_version    varchar,
    simulated         boolean not null,
    rehearsal         boolean not null,
    model             varchar not null,
    specbench_version varchar not null,
    git               varchar,
    host              varchar,
    cpu               varchar,
    gpus              varchar[],
    document          varchar not null,
    plan              json not null,
    provenance        json not null,
    source_sha256     varchar not null
);
comment on table experiments is 'One row a run folder: the question, the target, and where it came from.';
comment on column experiments.simulated is 'True: every number of this run comes from a cost model.';
comment on column experiments.rehearsal is 'True: a trial of a few cells of one arm. It gives no effect.';
comment on column experiments.document is 'The experiment as it was written.';

create table deployments (
    deployment_id varchar primary key,
    run_id        varchar not null,
    block         integer not null,
    place         integer not null,
    arm           varchar not null,
    method        varchar not null,
    role          varchar not null,
    attempt       integer not null,
    status        varchar not null,
    reason        varchar,
    cause_kind    varchar,
    cause_line    varchar,
    remedy        varchar,
    ready_s       double,
    exit_code     integer,
    split         boolean not null,
    host          varchar,
    same_process_as varchar,
    command       varchar[],
    every_step_drafts boolean,
    caveats       varchar[],
    family        varchar not null,
    longest_draft integer,
    source_sha256 varchar not null
);
comment on column deployments.family is 'The method, with the options in which its arms differ besides the draft length: arms of one family sweep k.';
comment on column deployments.longest_draft is 'k: the most tokens that a step may draft. Null without speculation.';
comment on column deployments.same_process_as is 'An attached server that an earlier deployment measured already: not independent, so it gives no effect.';
comment on column deployments.every_step_drafts is 'False: steps may go undrafted, so tokens_per_step, not acceptance_length, bounds the gain. Null without speculation.';
comment on table deployments is 'One row a launched server, failed ones too. The independent statistical unit.';
comment on column deployments.role is 'baseline, noise_floor (the baseline launched again), equalised (the baseline with settings of an arm) or arm.';
comment on column deployments.status is 'complete, rejected (not in effect), failed or interrupted.';
comment on column deployments.ready_s is 'Seconds from spawn to a first real completion.';
comment on column deployments.split is 'True when the cells of this block and arm come from several attempts.';

create table facts (
    deployment_id varchar not null,
    fact          varchar not null,
    value         varchar not null,
    source        varchar not null
);
comment on table facts is 'What each server said of itself, with the line it said it in. An absent fact is unknown.';

create table warnings (
    deployment_id varchar not null,
    kind          varchar not null,
    meaning       varchar not null,
    line          varchar not null,
    fell          varchar
);
comment on table warnings is 'Warnings of each server''s log that change what a measurement means, from launch to end.';
comment on column warnings.fell is 'Where a warning that bends one window fell, such as the compilation of a kernel: inside the window of a cell (then an anomaly of that cell), perhaps inside (the log tells whole seconds), between measured windows, or unknown. Null for the others.';

create table cells (
    cell_id                varchar primary key,
    deployment_id          varchar not null,
    stratum                varchar not null,
    sampling               varchar not null,
    concurrency            integer,
    arrival_rate           double,
    rejected               boolean not null,
    requests               integer not null,
    successes              integer not null,
    duration_s             double not null,
    output_tokens          bigint,
    output_throughput      double,
    steady_throughput      double,
    achieved_concurrency   double,
    ttft_p50_s             double,
    ttft_p95_s             double,
    ttft_p99_s             double,
    tpot_p50_s             double,
    tpot_p95_s             double,
    tpot_p99_s             double,
    e2e_p50_s              double,
    e2e_p95_s              double,
    e2e_p99_s              double,
    ttft_scheduled_p50_s   double,
    ttft_scheduled_p95_s   double,
    ttft_scheduled_p99_s   double,
    e2e_scheduled_p50_s    double,
    e2e_scheduled_p95_s    double,
    e2e_scheduled_p99_s    double,
    p95_weak               boolean not null,
    p99_weak               boolean not null,
    tokens_per_event       double,
    merged_events          integer not null,
    drafts                 bigint,
    drafted_tokens         bigint,
    accepted_tokens        bigint,
    accepted_per_position  bigint[],
    acceptance_rate        double,
    acceptance_length      double,
    acceptance_by_position double[],
    tokens_per_step        double,
    delivered_accepted_max bigint,
    preemptions            bigint,
    prefix_queries         bigint,
    prefix_hits            bigint,
    prefix_hit_rate        double,
    engine_steps           bigint,
    realised_batch         double,
    step_s                 double,
    undrafted_least        bigint,
    queue_mean_s           double,
    prefill_mean_s         double,
    decode_mean_s          double,
    samples                integer not null,
    running_mean           double,
    waiting_max            double,
    kv_usage_max           double,
    gpu_memory_gib         double,
    gpu_utilisation        double,
    sm_clock_mhz           double,
    power_w                double,
    energy_per_token_j     double,
    sm_activity            double,
    tensor_activity        double,
    nvlink_mib_s           double,
    pcie_mib_s             double,
    prompt_reuse           double,
    clock                  varchar not null,
    client_lag_p99_s       double,
    client_dispatch_p95_s  double,
    client_cpu_share       double,
    client_merged_share    double,
    client_reached_in_flight integer,
    started_unix_s         double not null,
    judged_by              varchar not null,
    source_sha256          varchar not null
);
comment on table cells is 'One row a measured window. Rejected ones are listed and never averaged.';
comment on column cells.output_throughput is 'Successful completion tokens / (first send to last completion), tokens per second.';
comment on column cells.steady_throughput is 'The same from the c-th send to the last send.';
comment on column cells.achieved_concurrency is 'Time mean of requests in flight from the c-th send to the last send.';
comment on column cells.concurrency is 'Requests in flight of a closed load; null under an open one.';
comment on column cells.arrival_rate is 'Mean arrivals a second of an open load; null under a closed one.';
comment on column cells.ttft_scheduled_p50_s is 'TTFT from the instant at which an open load was to send, so that no lateness is left out.';
comment on column cells.clock is 'What stamped the events: kernel (as they arrived) or user (as they were read).';
comment on column cells.client_lag_p99_s is 'By how much the client read events later than they arrived.';
comment on column cells.client_cpu_share is 'CPU time / duration of the busiest client process.';
comment on column cells.ttft_p50_s is 'Median time from send() to the first non-empty payload.';
comment on column cells.tpot_p50_s is 'Median of (E2E - TTFT) / (completion tokens - 1), from exact usage.';
comment on column cells.p95_weak is 'Fewer than 200 successes: the p95 values are weak. Under 60 they are null.';
comment on column cells.p99_weak is 'Fewer than 1,000 successes: the p99 values are weak. Under 300 they are null.';
comment on column cells.acceptance_rate is 'Accepted / drafted tokens, by the server''s counters.';
comment on column cells.acceptance_length is '1 + accepted / drafts.';
comment on column cells.acceptance_by_position is 'Accepted at position i / drafts; sums to acceptance_length - 1.';
comment on column cells.tokens_per_step is 'T / (T - accepted) over completion tokens T: bounds the gain where steps may go undrafted.';
comment on column cells.prefix_hits is 'Prompt tokens found in the prefix cache, of prefix_queries asked for.';
comment on column cells.prefix_hit_rate is 'Prefix hits / prompt tokens looked up in the window; null where nothing was looked up.';
comment on column cells.engine_steps is 'Engine steps that produced output, drafted or not; null where the server has no such histogram.';
comment on column cells.realised_batch is '(generated - accepted tokens) / engine steps: sequences that a step advanced, at least.';
comment on column cells.step_s is 'Window seconds a step of one engine. Prefill and idle time are in it: table step_costs compares decode steps.';
comment on column cells.undrafted_least is 'Sequence steps that went without a draft, at least; null without speculation or when a request failed.';
comment on column cells.queue_mean_s is 'Mean seconds that requests waited in the server, by its histogram; prefill and decode alike.';
comment on column cells.samples is 'Samples of the server inside the window; every sample is in samples.parquet of the cell.';
comment on column cells.running_mean is 'Mean of the requests that the server ran, sampled from the c-th send to the last send.';
comment on column cells.kv_usage_max is 'Highest sampled share of the KV cache in use, of the fullest engine.';
comment on column cells.energy_per_token_j is 'Energy of the accelerators over the window / completion tokens; null without an accelerator.';
comment on column cells.prompt_reuse is 'Mean share of the outputs'' runs of four words or signs that stand in their prompts.';
comment on column cells.delivered_accepted_max is 'Most accepted tokens that can have reached a client; the counters precede truncation.';

create table requests (
    cell_id           varchar not null,
    request_id        varchar not null,
    "index"           integer not null,
    prompt_id         varchar not null,
    pass_index        integer not null,
    turn              integer not null,
    status            varchar not null,
    http_status       integer,
    error             varchar,
    finish_reason     varchar,
    prompt_tokens     integer,
    completion_tokens integer,
    cached_tokens     integer,
    events            integer not null,
    scheduled_ns      bigint,
    called_ns         bigint not null,
    prompt_reuse      double,
    drafts            integer,
    drafted_tokens    integer,
    accepted_tokens   integer,
    sent_ns           bigint not null,
    ttft_s            double,
    ttft_scheduled_s  double,
    first_tokens_s    double,
    tpot_s            double,
    e2e_s             double,
    source            varchar not null
);
comment on table requests is 'One row a request, failures too. Event stamps stay in requests.parquet of the cell.';
comment on column requests.drafts is 'By the server''s metrics of this request, as drafted and accepted tokens; null unless per_request_metrics asked for them.';
comment on column requests.source is 'The tool that measured the row: specbench.';

create table counters (
    cell_id varchar not null,
    series  varchar not null,
    engine  varchar not null,
    labels  varchar not null,
    before  double,
    after   double
);
comment on table counters is 'The engine''s raw counters before and after each window, one row a series.';

create table captures (
    deployment_id varchar not null,
    capture       integer not null,
    concurrency   integer not null,
    prompt_id     varchar not null,
    status        varchar not null,
    text          varchar not null,
    finish_reason varchar,
    completion_tokens integer
);
comment on table captures is 'Greedy outputs on the correctness prompts.';

create table correctness (
    run_id                    varchar not null,
    arm                       varchar not null,
    concurrency               integer not null,
    verdict                   varchar not null,
    reason                    varchar not null,
    explanation               varchar,
    pairs                     integer not null,
    outputs                   integer not null,
    exact                     integer not null,
    control_pairs             integer not null,
    control_outputs           integer not null,
    control_exact             integer not null,
    prefix_fraction           double,
    prefix_fraction_control   double,
    prefix_fraction_allowance double,
    edit_distance             double,
    edit_distance_control     double,
    edit_distance_allowance   double,
    tokens                    integer,
    tokens_control            integer,
    tokens_allowance          integer,
    divergences               integer not null,
    near_ties                 integer not null,
    unexplained               integer not null,
    judged_by                 varchar not null
);
comment on table correctness is 'The correctness gate on every arm at every captured concurrency. A pass is no evidence of a violation, not a proof.';
comment on column correctness.verdict is 'pass, pass-explained, undecided or blocked.';
comment on column correctness.explanation is 'What a person recorded. It is shown, and changes no verdict.';
comment on column correctness.exact is 'Equal texts of so many outputs. Shown, not gated.';
comment on column correctness.prefix_fraction is 'The worst: common prefix / the shorter text. Null, as all measures, without a control.';
comment on column correctness.edit_distance is 'The worst: edit distance / the longer text.';
comment on column correctness.tokens is 'The worst difference in completion tokens.';

create table arm_correctness (
    run_id      varchar not null,
    arm         varchar not null,
    correctness varchar not null,
    explanation varchar,
    caveats     varchar[] not null,
    barred      varchar not null
);
comment on table arm_correctness is 'Each arm''s worst verdict over its concurrencies, its caveats, and why nothing may be claimed of it.';
comment on column arm_correctness.correctness is 'A verdict; `not captured` where there is none; `reference` of the baseline and its repeats.';
comment on column arm_correctness.barred is 'Why no gain of this arm is ever claimed; empty where nothing bars it.';

create table correctness_controls (
    run_id          varchar not null,
    arm             varchar not null,
    concurrency     integer not null,
    kind            varchar not null,
    control_arm     varchar not null,
    compared        boolean not null,
    pairs           integer not null,
    outputs         integer not null,
    exact           integer not null,
    prefix_fraction double not null,
    edit_distance   double not null,
    tokens          integer not null
);
comment on table correctness_controls is 'How far equal servers differ, beside the verdict on an arm. Those not compared are reported.';
comment on column correctness_controls.control_arm is 'Whose captures were paired.';

create table divergences (
    run_id      varchar not null,
    arm         varchar not null,
    concurrency integer not null,
    pair        varchar not null,
    prompt_id   varchar not null,
    token       integer,
    character   integer not null,
    behind_nats double,
    beyond_nats double,
    near_tie    boolean,
    shown_by    varchar,
    explained   boolean not null,
    before      varchar not null,
    reference   varchar not null,
    other       varchar not null
);
comment on table divergences is 'Where an arm''s output first leaves the baseline''s.';
comment on column divergences.behind_nats is 'By how much the arm''s token lies behind the baseline''s best; null where it is not listed.';
comment on column divergences.beyond_nats is 'It lies at least this far behind: it is not among the listed tokens.';
comment on column divergences.near_tie is 'Null where nobody can tell.';
comment on column divergences.shown_by is 'A capture without speculation that took the same turn.';

create table verdicts (
    deployment_id varchar not null,
    cell_id       varchar,
    gate          varchar not null,
    outcome       varchar not null,
    observed      varchar not null,
    required      varchar not null,
    advice        varchar not null,
    judged_by     varchar not null
);
comment on table verdicts is 'The outcome of every declared rule, on a deployment (cell_id null) or on a cell.';

create table differences (
    run_id      varchar not null,
    comparison  varchar not null,
    denominator varchar not null,
    block       integer not null,
    arm         varchar not null,
    fact        varchar not null,
    baseline    varchar not null,
    arm_value   varchar not null,
    direction   varchar not null,
    scope       varchar not null,
    meaning     varchar not null,
    controlled  boolean not null,
    sentence    varchar not null
);
comment on table differences is 'Serving properties in which an arm differs from the baseline, or its twin, of its block, besides the method.';
comment on column differences.denominator is 'The baseline as it is served (comparison shipped), or its twin with the arm''s settings (equalised).';
comment on column differences.direction is 'favours baseline, favours speculation or unclear: all else equal.';
comment on column differences.scope is 'common: every speculative arm differs so. asymmetric: they differ among themselves, too.';

create table cell_differences (
    run_id      varchar not null,
    comparison  varchar not null,
    denominator varchar not null,
    block       integer not null,
    arm         varchar not null,
    stratum     varchar not null,
    sampling    varchar not null,
    concurrency integer,
    arrival_rate double,
    fact        varchar not null,
    baseline    varchar not null,
    arm_value   varchar not null,
    direction   varchar not null,
    meaning     varchar not null,
    sentence    varchar not null
);
comment on table cell_differences is 'What differs between a cell of an arm and the same cell of what it is compared with: graphs, running below asked, preemptions, prefix hits, a full KV cache, other prompts.';

create table anomalies (
    run_id      varchar not null,
    kind        varchar not null,
    arm         varchar not null,
    stratum     varchar not null,
    sampling    varchar not null,
    concurrency integer,
    arrival_rate double,
    sentence    varchar not null
);
comment on table anomalies is 'Numbers that do not fit together, in words. Nothing is rejected by them. Neither concurrency nor rate: about all load points.';

create table sampled_outputs (
    run_id           varchar not null,
    arm              varchar not null,
    stratum          varchar not null,
    sampling         varchar not null,
    concurrency      integer,
    arrival_rate     double,
    control          varchar not null,
    blocks           integer[] not null,
    outputs          integer not null,
    respect          varchar,
    arm_distance     double,
    control_distance double,
    p_value          double,
    least_p_value    double,
    p_adjusted       double,
    outcome          varchar not null,
    reason           varchar not null,
    judged_by        varchar not null
);
comment on table sampled_outputs is 'Whether an arm''s outputs under a sampling that is not greedy come from the baseline''s distribution: one row a load point and respect. Never by equality; finding no difference is no proof that there is none.';
comment on column sampled_outputs.control is 'What the arm is measured against: another deployment of the baseline''s configuration. Empty where there is none.';
comment on column sampled_outputs.outputs is 'Outputs on each of the three sides; the baseline''s from every other pass over the prompts, those of arm and control from the passes between.';
comment on column sampled_outputs.respect is 'length (tokens), first_token or ngram (pairs of tokens; shares from 0 to 1); null where nothing could be compared.';
comment on column sampled_outputs.arm_distance is 'Distance of the arm from the baseline, a mean over prompts; control_distance: that of the control.';
comment on column sampled_outputs.p_value is 'Chance of an arm that much further away than the control, when it samples as the control does (permutation test).';
comment on column sampled_outputs.least_p_value is 'The smallest p-value that so many outputs can give.';
comment on column sampled_outputs.p_adjusted is 'p_value by Holm over all rows of the run.';
comment on column sampled_outputs.outcome is 'differs (p_adjusted at most 0.05), none shown, or undecided with its reason.';

create table effects (
    run_id        varchar not null,
    comparison    varchar not null,
    denominator   varchar not null,
    arm           varchar not null,
    role          varchar not null,
    stratum       varchar not null,
    sampling      varchar not null,
    concurrency   integer,
    arrival_rate  double,
    metric        varchar not null,
    blocks        integer not null,
    estimate      double,
    median        double,
    spread        double,
    low           double,
    high          double,
    interval_note varchar not null,
    bootstrap_low      double,
    bootstrap_high     double,
    bootstrap_coverage double,
    deployments   integer not null,
    weak          boolean not null,
    missing       varchar[] not null,
    confounds     varchar[] not null,
    judged_by     varchar not null
);
comment on table effects is 'Arm / baseline over blocks, one row a cell and metric. Above 1 is more: good for throughput, bad for times.';
comment on column effects.comparison is 'shipped: against the baseline as it is served. equalised: against its twin with the arm''s own settings.';
comment on column effects.confounds is 'What else differed, a sentence each: no ratio may be read without them.';
comment on column effects.estimate is 'Geometric mean of the ratios of the blocks.';
comment on column effects.spread is '(largest - smallest) / mean of the ratios of the blocks.';
comment on column effects.bootstrap_low is 'Lower bound of the 95% percentile bootstrap over blocks, shown beside the t interval and never decided by.';
comment on column effects.bootstrap_coverage is 'How often such a bootstrap interval holds the truth, measured: docs/statistics.md.';
comment on column effects.deployments is 'Deployments behind the ratios: the arm''s and the plain baselines''.';
comment on column effects.weak is 'A p95 behind it comes from fewer than 200 successes.';
comment on column effects.low is 'Lower bound of the 95% Student t interval of log ratios over blocks; null under 3 blocks.';

create table repeats (
    run_id      varchar not null,
    comparison  varchar not null,
    denominator varchar not null,
    arm         varchar not null,
    stratum     varchar not null,
    sampling    varchar not null,
    concurrency integer,
    arrival_rate double,
    metric      varchar not null,
    block       integer not null,
    baseline    double not null,
    arm_value   double not null,
    ratio       double not null
);
comment on table repeats is 'The ratio of every block behind an effect.';

create table decisions (
    run_id          varchar not null,
    arm             varchar not null,
    stratum         varchar not null,
    sampling        varchar not null,
    metric          varchar not null,
    loads           double[] not null,
    blocks          integer not null,
    estimate        double,
    median          double,
    spread          double,
    low             double,
    high            double,
    interval_note   varchar not null,
    bootstrap_low      double,
    bootstrap_high     double,
    bootstrap_coverage double,
    p_value         double,
    p_holm          double,
    comparisons     integer not null,
    materiality     double not null,
    gain            varchar not null,
    reasons         varchar[] not null,
    regression_limit double not null,
    regression_low  double,
    regression      varchar not null,
    within_best     boolean,
    weak            boolean not null,
    missing         varchar[] not null,
    beside          varchar[] not null,
    judged_by       varchar not null
);
comment on table decisions is 'What may be claimed: one row an arm and workload (stratum x sampling) of the shipped comparison, on the declared metric and loads.';
comment on column decisions.estimate is 'Geometric mean over blocks of the gain, itself the geometric mean over the declared loads. Above 1 is better, for times too.';
comment on column decisions.low is 'Lower bound of the decision interval: 95% Student t over blocks.';
comment on column decisions.p_holm is 'Two-sided p-value of the t statistic, adjusted by Holm over all arms x workloads (comparisons).';
comment on column decisions.gain is 'claimed; candidate (screening passed the same rule); withheld (passed, and something bars it); not_shown.';
comment on column decisions.reasons is 'Why no gain is claimed.';
comment on column decisions.regression is 'shown_absent (regression_low above 1 - regression_limit, from 5 blocks), present (estimate below it) or unresolved.';
comment on column decisions.regression_low is 'Lower one-sided 99% t bound.';
comment on column decisions.within_best is 'Whether the estimate lies within decision.within_best of the workload''s best arm.';
comment on column decisions.beside is 'What may not be left out beside the number: caveats, blocked correctness, confounds, a missing A/A.';

create table decision_repeats (
    run_id   varchar not null,
    arm      varchar not null,
    stratum  varchar not null,
    sampling varchar not null,
    block    integer not null,
    gain     double not null
);
comment on table decision_repeats is 'The gain of every block behind a decision; of the baseline''s repeat too (A/A).';

create table aa_validity (
    run_id       varchar not null,
    arm          varchar not null,
    stratum      varchar not null,
    sampling     varchar not null,
    metric       varchar not null,
    blocks       integer not null,
    estimate     double,
    low          double,
    high         double,
    p_holm       double,
    spread       double,
    spread_bound double not null,
    outcome      varchar not null,
    reason       varchar not null
);
comment on table aa_validity is 'The baseline against its own repeat on every workload. fail: nothing is claimed from the run.';
comment on column aa_validity.spread is 'Largest |a - b| / mean of the two baselines over blocks.';
comment on column aa_validity.p_holm is 'Two-sided, adjusted by Holm over workloads; below 0.05 the interval excludes 1.';

create table traffic_mix (
    run_id       varchar not null,
    arm          varchar not null,
    role         varchar not null,
    sampling     varchar not null,
    concurrency  integer,
    arrival_rate double,
    strata       varchar[] not null,
    shares       double[] not null,
    blocks       integer not null,
    speedup      double,
    low          double,
    high         double,
    interval_note varchar not null,
    missing      varchar[] not null
);
comment on table traffic_mix is 'Speed-up of the declared mix of requests: sum of share x baseline time / sum of share x arm time, time = window seconds per successful request. Descriptive.';

create table drift (
    run_id       varchar not null,
    stratum      varchar not null,
    sampling     varchar not null,
    concurrency  integer,
    arrival_rate double,
    metric       varchar not null,
    factor       varchar not null,
    change       double,
    low          double,
    high         double,
    deployments  integer not null,
    note         varchar not null
);
comment on table drift is 'How the metric moved with the place in the block or with elapsed hours, all arms together, each against its own mean. Descriptive.';
comment on column drift.change is 'Ratio for one more place or hour; 1 is no drift. low and high: 95% of least squares.';

create table nodes (
    run_id       varchar not null,
    stratum      varchar not null,
    sampling     varchar not null,
    concurrency  integer,
    arrival_rate double,
    metric       varchar not null,
    host         varchar not null,
    arm          varchar not null,
    deployments  integer not null,
    ratio        double not null
);
comment on table nodes is 'Each arm on each node against the arm''s mean over all nodes: the node as a nuisance. Descriptive.';

create table looks (
    run_id varchar not null,
    unix_s double not null,
    made_by varchar not null,
    blocks integer not null
);
comment on table looks is 'Each time that results of a run were shown: by which command and after how many whole blocks.';
comment on column looks.blocks is 'A look before the last block is a chance to stop at a lucky moment; no interval allows for it.';

create view looked as
select
    run_id, count(*)::integer as looks, list(distinct blocks order by blocks) as at_blocks,
    count(distinct blocks) filter (blocks < last)::integer as before_last
from looks join (
    select run_id, max(block) as last from deployments group by run_id
) using (run_id)
group by run_id;
comment on view looked is 'How often the results of each run were looked at, after how many blocks, and at how many points before the last block. A lower bound: files can be opened without specbench.';

create view rejected_cells as
select
    d.run_id, d.block, d.arm, d.role, c.stratum, c.sampling, c.concurrency, c.arrival_rate, c.cell_id,
    list(v.gate || ': ' || v.observed || ', required ' || v.required order by v.gate) as reasons
from cells c join deployments d using (deployment_id)
join verdicts v on v.outcome = 'fail' and v.deployment_id = c.deployment_id
    and (v.cell_id is null or v.cell_id = c.cell_id)
where v.gate <> 'correctness'  -- it bars claims of the arm; its cells are measured and shown
group by all;
comment on view rejected_cells is 'Cells that no average holds, with every failed ruling on them or their deployment.';

create view runs as
select
    d.run_id, d.block, d.place, d.arm, d.method, d.role, d.attempt, d.status, d.ready_s,
    c.stratum, c.sampling, c.concurrency, c.arrival_rate, c.rejected, c.requests, c.successes,
    c.output_throughput, c.ttft_p50_s, c.tpot_p50_s, c.acceptance_rate, c.acceptance_length,
    c.tokens_per_step, e.simulated
from cells c join deployments d using (deployment_id) join experiments e using (run_id);
comment on view runs is 'Every measured cell with its deployment: the flat table to start from.';

create view acceptance_positions as
select
    d.run_id, d.block, d.arm, c.stratum, c.sampling, c.concurrency, c.arrival_rate, c.rejected,
    unnest(range(1, len(c.acceptance_by_position) + 1)) as position,
    unnest(c.acceptance_by_position) as rate
from cells c join deployments d using (deployment_id)
where c.acceptance_by_position is not null;
comment on view acceptance_positions is 'Accepted at position i / drafts, one row a position (from 1).';

create view speedups as
select e.*, x.simulated, c.correctness, c.explanation, c.caveats, c.barred
from effects e join experiments x using (run_id) left join arm_correctness c using (run_id, arm)
where e.metric = 'output_throughput';
comment on view speedups is 'Throughput effects: above 1 the arm is faster than the baseline.';

create table step_costs (
    run_id             varchar not null,
    comparison         varchar not null,
    denominator        varchar not null,
    block              integer not null,
    arm                varchar not null,
    stratum            varchar not null,
    sampling           varchar not null,
    concurrency        integer,
    arrival_rate       double,
    baseline_batch     double,
    arm_batch          double,
    baseline_step_s    double,
    arm_step_s         double,
    cost               double,
    delivered_per_step double,
    drafted_share      double,
    delivered_length   double,
    break_even_length  double,
    bound              double,
    ceiling            double,
    withheld           varchar not null
);
comment on table step_costs is 'What a decode step of an arm costs against one of the baseline of its block, where both advanced equally many sequences a step (within 5%). Explains, decides nothing.';
comment on column step_costs.baseline_step_s is 'Decode seconds of requests (E2E - TTFT) / their decode steps. Steps that also prefill other requests are in it.';
comment on column step_costs.cost is 'arm_step_s / baseline_step_s: the tokens a decode step at which the arm breaks even.';
comment on column step_costs.delivered_per_step is 'Tokens that a decode step delivered. Divided by cost it is the gain in TPOT.';
comment on column step_costs.drafted_share is 'Share of the decode steps that verified a draft.';
comment on column step_costs.delivered_length is 'Acceptance length of what reached clients: the counters precede the cut of an output.';
comment on column step_costs.break_even_length is '1 + (cost - 1) / drafted_share: the acceptance length at which TPOT would equal the baseline''s.';
comment on column step_costs.bound is 'The lower of tokens_per_step and acceptance_length: no gain in throughput exceeds it unless a step with speculation is cheaper.';
comment on column step_costs.ceiling is '(longest draft + 1) / cost: the gain if every step drafted all it may and everything were accepted.';
comment on column step_costs.withheld is 'Why there is no cost; empty when there is.';

create table break_evens (
    run_id             varchar not null,
    comparison         varchar not null,
    denominator        varchar not null,
    arm                varchar not null,
    stratum            varchar not null,
    sampling           varchar not null,
    concurrency        integer,
    arrival_rate       double,
    blocks             integer not null,
    cost               double,
    cost_low           double,
    cost_high          double,
    delivered_per_step double,
    delivered_length   double,
    break_even_length  double,
    length_low         double,
    length_high        double,
    bound              double,
    ceiling            double,
    interval_note      varchar not null,
    missing            varchar[] not null
);
comment on table break_evens is 'Step costs over blocks, with 95% Student t intervals: of log costs, and of break-even lengths.';

create table correlations (
    run_id       varchar not null,
    stratum      varchar not null,
    sampling     varchar not null,
    concurrency  integer,
    arrival_rate double,
    quantity     varchar not null,
    metric       varchar not null,
    arms         integer not null,
    pearson      double,
    spearman     double,
    note         varchar not null
);
comment on table correlations is 'Explanatory: acceptance against a metric''s ratio to the baseline over the arms of one cell, one point an arm. Acceptance is not manipulated, so that nothing is decided by it.';
