def write_report(results, run_id, out, formats):
    return [out]
